"""Sets of images with captions: what is left out, held-out images."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.vision.data.caption_sets import ImageNames, Reason, hold_out, read_caption_set
from crosshead.addons.vision.data.image_decoding import USUAL_SIZE, ImagePlace
from crosshead.addons.vision.data.images import ImageFolder, encode_png
from tests.text.written import refusal, write, write_captions


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_captions(tmp_path, 12, each=2)
    return tmp_path


def test_a_set_has_each_image_once_and_all_its_captions(folder: Path) -> None:
    found = read_caption_set(["images"], ["captions.jsonl"], None)
    assert found.pixels.shape == (12, 24, 24, 3) and len(found.captions) == 24
    first, second = found.references()[3]
    assert second == f"here is {first}" and not found.left_out.names
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
            '{"image": "phone.HEIC", "caption": "a cat"}\n'
        )
    found = read_caption_set(["images"], ["captions.jsonl"], None)
    assert found.left_out.counts() == {
        "captions without an image": 1, "empty captions": 1, "images without a caption": 1,
        "broken images": 2,
        "captions of an image in a format that is not read (convert it to JPEG or PNG)": 1,
    }  # fmt: skip
    assert found.pixels.shape == (10, 24, 24, 3)
    assert len(found.captions) == 20 and "001.png" not in found.names
    lines = found.left_out.lines()
    assert "left out: 1 caption without an image (captions.jsonl:25 gone.png)" in lines
    assert "left out: 1 empty caption (captions.jsonl:26)" in lines
    assert any("001.png: not a whole image" in line for line in lines)
    assert "left out: 1 image without a caption (extra.png)" in lines
    assert "image without a caption" not in "".join(found.left_out.described().lines())
    assert len(found.left_out.described().lines()) == 4
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
    assert "some.tsv:1 dogs/1.png" in found.left_out.names[Reason("caption", " without an image")]


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
