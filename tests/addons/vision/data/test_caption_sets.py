"""Sets of images with captions or pairs: files, what is left out, held-out images."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from crosshead.addons.vision.data.caption_sets import (
    CAPTIONS,
    PAIRS,
    CaptionFormat,
    CaptionRows,
    ImageNames,
    hold_out,
    image_rows,
    other_images,
    read_caption_set,
)
from crosshead.addons.vision.data.image_decoding import USUAL_SIZE, ImagePlace
from crosshead.addons.vision.data.images import ImageFolder, as_floats, encode_png
from crosshead.text.parallel.tables import Row
from crosshead.vocabulary import BOS, EOS, PAD
from tests.text.written import refusal, write, write_captions, write_image_pairs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_captions(tmp_path, 12, each=2)
    return tmp_path


def test_a_set_has_each_image_once_and_all_its_captions(folder: Path) -> None:
    found = read_caption_set(["images"], ["captions.jsonl"], None)
    assert found.pixels.shape == (12, 24, 24, 3) and len(found.captions) == 24
    first, second = found.references()[3]
    assert second == f"here is {first}" and not found.left_out
    with zipfile.ZipFile("all.zip", "w") as archive:
        for path in sorted(Path("images").iterdir()):
            archive.write(path, f"photos/{path.name}")  # found by its name without folders
    packed = read_caption_set(["all.zip"], ["captions.jsonl"], None)
    assert (packed.pixels == found.pixels).all() and packed.texts == found.texts
    assert read_caption_set(["images"], ["captions.jsonl"], 16).pixels.shape == (12, 16, 16, 3)
    Path("images/000.png").write_bytes(encode_png(np.zeros((30, 50, 3), np.uint8)))
    other = read_caption_set(["images"], ["captions.jsonl"], None)
    assert other.pixels.shape[1] == USUAL_SIZE  # not all images are squares of one size


def test_what_does_not_fit_is_left_out_and_counted(folder: Path) -> None:
    whole = Path("images/001.png").read_bytes()
    Path("images/000.png").write_bytes(b"no image")  # the first one does not choose the size
    Path("images/001.png").write_bytes(whole[: len(whole) // 2])
    Path("images/extra.png").write_bytes(whole)
    with Path("captions.jsonl").open("a") as file:
        file.write(
            '{"image": "gone.png", "caption": "a dog"}\n{"image": "002.png", "caption": ""}\n'
        )
    found = read_caption_set(["images"], ["captions.jsonl"], None)
    counts = {reason: len(places) for reason, places in found.left_out.items()}
    assert counts == {
        ("caption", " without an image"): 1, ("empty caption", ""): 1, ("broken image", ""): 2,
    }  # fmt: skip
    assert found.pixels.shape == (10, 24, 24, 3)
    assert len(found.captions) == 20 and "001.png" not in found.names
    lines = found.messages()
    assert "left out: 1 caption without an image (captions.jsonl:25 gone.png)" in lines
    assert "left out: 1 empty caption (captions.jsonl:26)" in lines
    assert any("001.png: not a whole image" in line for line in lines)
    assert found.texts[-1] in found.references()[found.captions[-1].image]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"image": "a.png"}\n', "a.jsonl:1: no field 'caption'"),
        ("a.jsonl", "[1]\n", "a.jsonl:1: expected a JSON object"),
        ("a.txt", "000.png#0\tfine\n000.png a dog\n", "a.txt:2: expected at least 2 columns"),
        ("a.txt", "other.png\ta dog\n", "no caption has a readable image in images"),
        ("a.txt", "", "the files have no captions"),
    ],
)
def test_bad_files_are_refused(folder: Path, name: str, text: str, message: str) -> None:
    write(folder / name, text)
    assert message in refusal(read_caption_set, ["images"], [name], None)


def test_a_missing_folder_and_a_name_in_two_folders_are_refused(folder: Path) -> None:
    assert "nowhere: no such file or folder" in refusal(
        read_caption_set, ["nowhere"], ["captions.jsonl"], None
    )
    twice = refusal(read_caption_set, ["images", "images"], ["captions.jsonl"], None)
    assert "000.png is also in images" in twice


def test_a_caption_never_gets_an_image_of_another_folder(folder: Path) -> None:
    data = Path("images/000.png").read_bytes()
    for name in ("cats/1.png", "cats/2.png", "birds/small/2.png", "birds/9.png"):
        (folder / "animals" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "animals" / name).write_bytes(data)
    animals = ImageFolder(Path("animals"))
    names, whole = ImageNames([animals]), ImagePlace(animals, "cats/1.png")
    for name in ("cats/1.png", "1.png", "./cats/1.png", "animals/cats/1.png"):
        assert names.find(name) == [whole]
    assert names.find(str(folder / "animals" / "cats" / "1.png")) == [whole]
    assert names.find("small/2.png") == [ImagePlace(animals, "birds/small/2.png")]
    for name in ("dogs/1.png", "dogs/cats/1.png", "2.png", "birds/2.png", "ats/1.png", "", "/"):
        assert len(names.find(name)) != 1
    write(folder / "some.tsv", "dogs/1.png\ta dog\ncats/1.png\ta cat\n")
    found = read_caption_set(["animals"], ["some.tsv"], None)
    assert (found.names, found.texts) == (["cats/1.png"], ["a cat"])
    assert "some.tsv:1 dogs/1.png" in found.left_out["caption", " without an image"]


def test_whole_images_are_held_out(folder: Path) -> None:
    found = read_caption_set(["images"], ["captions.jsonl"], None)
    train, valid = hold_out(found, 500)
    assert len(valid.names) == 1 and len(train.names) == 11
    assert not set(train.names) & set(valid.names) and not set(train.texts) & set(valid.texts)
    [row] = [place for place, name in enumerate(found.names) if name == valid.names[0]]
    assert (valid.pixels[0] == found.pixels[row]).all()
    assert valid.references() == [found.references()[row]]
    again, _ = hold_out(found, 500)
    assert again.names == train.names
    assert "one image" in refusal(hold_out, found.chosen([0]), 1)


def test_json_lines_and_lines_of_flickr_are_the_same_captions(tmp_path: Path) -> None:
    write_captions(tmp_path, 12, each=2)
    found = rows_of(tmp_path / "captions.jsonl")
    table = "".join(f"{name}#{line % 2}\t{text}\n" for line, (name, text) in found)
    write(tmp_path / "captions.token", table)
    assert rows_of(tmp_path / "captions.token") == found and len(found) == 24
    write(tmp_path / "a.token", "a#b.png\t  two  words \n\n")
    assert rows_of(tmp_path / "a.token") == [(1, ["a#b.png", "two words"])]


def test_csv_begins_with_the_names_of_its_columns(tmp_path: Path) -> None:
    text = 'image,caption\n1.jpg,a dog\n\n1.jpg,"a dog, a cat ""and"" a man"\n'
    found = rows_of(write(tmp_path / "captions.txt", text))
    assert found == [(2, ["1.jpg", "a dog"]), (4, ["1.jpg", 'a dog, a cat "and" a man'])]
    broken = write(tmp_path / "b.csv", "image,caption\n1.jpg,a dog, a cat\n")
    assert "b.csv:2: expected 2 columns between commas, found 3" in refused(broken)


def test_semicolons_are_read_like_commas(tmp_path: Path) -> None:
    text = 'image;"caption"\n1.jpg;a dog, a cat\n1.jpg;"a dog; a cat"\n'
    found = rows_of(write(tmp_path / "a.csv", text))
    assert found == [(2, ["1.jpg", "a dog, a cat"]), (3, ["1.jpg", "a dog; a cat"])]
    broken = write(tmp_path / "b.csv", "image;caption\n1.jpg,a dog\n")
    assert "b.csv:2: expected at least 2 columns between semicolons" in refused(broken)


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    rows = write(tmp_path / "a.csv", "number,caption,image\n0,a dog,1.jpg\n")
    assert rows_of(rows) == [(2, ["1.jpg", "a dog"])]
    found = refused(write(tmp_path / "results.csv", "image_name,comment\n1.jpg,a dog\n"))
    assert "results.csv:1: no column 'image' in the first line; did you mean 'image_name'?" in found


def test_a_third_cell_is_refused(tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", "1.jpg#0\ta dog\n1.jpg\ta dog\tein Hund\n")
    found = refused(pairs)
    assert "pairs.tsv:2: expected 2 columns between tabs, found 3" in found
    assert found.endswith("; the columns are image, caption")


def test_an_array_of_json_is_refused_with_advice(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.json"):
        for text in ('[{"image": "1.jpg", "caption": "a dog"}]', '[\n  {\n    "image": "1.jpg"'):
            found = refused(write(tmp_path / name, text))
            assert f"{name}:1: expected" in found and "JSON Lines" in found
    rows = write(tmp_path / "b.jsonl", '{"image": "1.jpg", "caption": ["a dog"]}\n')
    found = refused(rows)
    assert "b.jsonl:1: field 'caption' is no text" in found


def rows_of(path: Path, kind: CaptionFormat = CAPTIONS) -> list[Row]:
    return list(image_rows(path, kind.columns))


def refused(path: Path) -> str:
    """The line with which a file of captions is refused."""
    return refusal(rows_of, path)


@pytest.fixture
def pairs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_image_pairs(tmp_path, 6)
    return tmp_path


def test_json_lines_and_tables_are_the_same_pairs(pairs_folder: Path) -> None:
    found = rows_of(pairs_folder / "pairs.jsonl", PAIRS)
    table = "".join("\t".join(cells) + "\n" for _, cells in found)
    write(pairs_folder / "pairs.tsv", table)
    assert rows_of(pairs_folder / "pairs.tsv", PAIRS) == found and len(found) == 6
    write(pairs_folder / "a.tsv", "a.png\t  two\u00a0 words \teins\n\n")
    assert rows_of(pairs_folder / "a.tsv", PAIRS) == [(1, ["a.png", "two words", "eins"])]


def test_a_set_has_the_pairs_of_its_images(pairs_folder: Path) -> None:
    pairs = write_image_pairs(pairs_folder, 6)
    found = read_caption_set(["images"], ["pairs.jsonl"], None, kind=PAIRS)
    assert found.sources == [each.source for each in pairs]
    assert found.texts == [each.target for each in pairs]
    assert all((a == b.pixels).all() for a, b in zip(found.pixels, pairs, strict=True))


def test_pairs_that_do_not_fit_are_left_out_and_counted(pairs_folder: Path) -> None:
    whole = Path("images/001.png").read_bytes()
    Path("images/001.png").write_bytes(whole[: len(whole) // 2])
    Path("images/extra.png").write_bytes(whole)
    lines = ["gone.png\ta dog\tein Hund", "002.png\t\tein Hund", "002.png\ta dog\t "]
    write(pairs_folder / "more.tsv", "\n".join(lines) + "\n")
    found = read_caption_set(["images"], ["pairs.jsonl", "more.tsv"], None, kind=PAIRS)
    counts = {reason: len(places) for reason, places in found.left_out.items()}
    assert counts == {
        ("pair", " without an image"): 1, ("empty pair", ""): 2, ("broken image", ""): 1,
    }  # fmt: skip
    assert len(found.captions) == 5
    assert "left out: 1 pair without an image (more.tsv:1 gone.png)" in found.messages()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"image": "a.png", "source": "a"}\n', "a.jsonl:1: no field 'target'"),
        ("a.jsonl", '{"source": "a", "target": "b"}\n', "a.jsonl:1: no field 'image'"),
        (
            "a.jsonl",
            '{"image": 1, "source": "a", "target": "b"}\n',
            "a.jsonl:1: field 'image' is no text",
        ),
        ("a.jsonl", '[{"image": "a.png"}]', "write one object on every line (JSON Lines)"),
        ("a.json", '[{"image": "a.png"}]', "JSON Lines named .jsonl"),
        ("a.tsv", "000.png\ta\tb\na\tb\n", "a.tsv:2: expected at least 3 columns between tabs"),
        ("a.tsv", "\ta\tb\n", "1 pair without an image (a.tsv:1 )"),
        ("a.tsv", "other.png\ta\tb\n", "no pair has a readable image in images"),
        ("a.tsv", "", "the files have no pairs"),
    ],
)
def test_bad_files_of_pairs_are_refused(
    pairs_folder: Path, name: str, text: str, message: str
) -> None:
    write(pairs_folder / name, text)
    assert message in refusal(lambda: read_caption_set(["images"], [name], None, kind=PAIRS))


def test_one_image_cannot_be_held_out(pairs_folder: Path) -> None:
    found = read_caption_set(["images"], ["pairs.jsonl"], None, kind=PAIRS)
    assert "one image with pairs is not enough" in refusal(lambda: hold_out(found.chosen([0]), 1))
    train, valid = hold_out(found, 1)
    assert len(valid.sources) == 1 and valid.sources[0] in found.sources
    assert len(train.sources) == 5


def test_shuffled_images_are_all_others() -> None:
    images = [3, 0, 0, 1, 2, 3]
    found = other_images(images)
    assert all(here != there for here, there in zip(images, found, strict=True))
    assert found[1] == found[2] and found[0] == found[5]  # one image stays one image
    assert sorted(set(found)) == [0, 1, 2, 3] and found == other_images(images)
    assert "two different images" in refusal(other_images, [4, 4])


def test_rows_are_images_and_shifted_captions() -> None:
    pixels = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
    rows = CaptionRows(pixels, [2, 0], [((), [5, 6]), ((), [7])], patches=4)
    batch = rows.collate([1, 0])
    images, target = batch.inputs
    assert torch.equal(images, as_floats(pixels[[0, 2]]))
    assert target.tolist() == [[BOS, 7, PAD], [BOS, 5, 6]]
    assert batch.target_output.tolist() == [[7, EOS, PAD], [5, 6, EOS]] and batch.count == 5
    assert rows.lengths.tolist() == [[5, 3], [5, 2]]
    assert sorted(np.concatenate(rows.plan(100, 1, 0)).tolist()) == [0, 1]
    assert rows.extent(0) == "4 patches, 2 tokens"


def test_rows_are_images_sources_and_shifted_targets() -> None:
    pixels = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
    rows = CaptionRows(pixels, [2, 0], [([8], [5, 6]), ([9, 9, 9], [7])], 4, PAIRS)
    batch = rows.collate([1, 0])
    images, source, target = batch.inputs
    assert torch.equal(images, as_floats(pixels[[0, 2]]))
    assert source.tolist() == [[9, 9, 9, EOS], [8, EOS, PAD, PAD]]
    assert target.tolist() == [[BOS, 7, PAD], [BOS, 5, 6]]
    assert batch.target_output.tolist() == [[7, EOS, PAD], [5, 6, EOS]]
    assert rows.lengths.tolist() == [[6, 3], [8, 2]]  # patches count as positions
    assert rows.extent(1) == "4 patches, 3 and 1 tokens"
