"""Pairs beside images: files, shuffled images, rows of an epoch."""

from pathlib import Path

import numpy as np
import pytest
import torch

from crosshead.addons.vision.data.caption_sets import hold_out, read_caption_set
from crosshead.addons.vision.data.image_pairs import (
    PAIRS,
    ImagePairRows,
    other_images,
    read_image_pairs,
)
from crosshead.addons.vision.data.images import as_floats
from crosshead.vocabulary import BOS, EOS, PAD
from tests.text.written import refusal, write, write_image_pairs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_image_pairs(tmp_path, 6)
    return tmp_path


def test_json_lines_and_tables_are_the_same_pairs(folder: Path) -> None:
    found = list(read_image_pairs(folder / "pairs.jsonl"))
    table = "".join(f"{row.image}\t{row.source}\t{row.text}\n" for row in found)
    write(folder / "pairs.tsv", table)
    assert list(read_image_pairs(folder / "pairs.tsv")) == found and len(found) == 6
    write(folder / "a.tsv", "a.png\t  two\u00a0 words \teins\n\n")
    [row] = read_image_pairs(folder / "a.tsv")
    assert (row.image, row.source, row.text) == ("a.png", "two words", "eins")


def test_a_set_has_the_pairs_of_its_images(folder: Path) -> None:
    pairs = write_image_pairs(folder, 6)
    found = read_caption_set(["images"], ["pairs.jsonl"], None, kind=PAIRS)
    assert found.sources == [each.source for each in pairs]
    assert found.texts == [each.target for each in pairs]
    assert all((a == b.pixels).all() for a, b in zip(found.pixels, pairs, strict=True))


def test_what_does_not_fit_is_left_out_and_counted(folder: Path) -> None:
    whole = Path("images/001.png").read_bytes()
    Path("images/001.png").write_bytes(whole[: len(whole) // 2])
    Path("images/extra.png").write_bytes(whole)
    lines = ["gone.png\ta dog\tein Hund", "002.png\t\tein Hund", "002.png\ta dog\t "]
    write(folder / "more.tsv", "\n".join(lines) + "\n")
    found = read_caption_set(["images"], ["pairs.jsonl", "more.tsv"], None, kind=PAIRS)
    assert found.left_out.counts() == {
        "pairs without an image": 1, "empty pairs": 2, "images without a pair": 1,
        "broken images": 1,
    }  # fmt: skip
    assert len(found.captions) == 5
    assert "left out: 1 pair without an image (more.tsv:1 gone.png)" in found.left_out.lines()


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
        ("a.tsv", "000.png#0\ta\tb\n", "1 pair without an image (a.tsv:1 000.png#0)"),
        ("a.tsv", "", "the files have no pairs"),
    ],
)
def test_bad_files_are_refused(folder: Path, name: str, text: str, message: str) -> None:
    write(folder / name, text)
    assert message in refusal(lambda: read_caption_set(["images"], [name], None, kind=PAIRS))


def test_one_image_cannot_be_held_out(folder: Path) -> None:
    found = read_caption_set(["images"], ["pairs.jsonl"], None, kind=PAIRS)
    assert "one image with pairs is not enough" in refusal(
        lambda: hold_out(found.chosen([0]), 1, PAIRS)
    )
    train, valid = hold_out(found, 1, PAIRS)
    assert len(valid.sources) == 1 and valid.sources[0] in found.sources
    assert len(train.sources) == 5


def test_shuffled_images_are_all_others() -> None:
    images = [3, 0, 0, 1, 2, 3]
    found = other_images(images)
    assert all(here != there for here, there in zip(images, found, strict=True))
    assert found[1] == found[2] and found[0] == found[5]  # one image stays one image
    assert sorted(set(found)) == [0, 1, 2, 3] and found == other_images(images)
    assert "two different images" in refusal(other_images, [4, 4])


def test_rows_are_images_sources_and_shifted_targets() -> None:
    pixels = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
    rows = ImagePairRows(pixels, [2, 0], [([8], [5, 6]), ([9, 9, 9], [7])], patches=4)
    batch = rows.collate([1, 0])
    images, source, target = batch.inputs
    assert torch.equal(images, as_floats(pixels[[0, 2]]))
    assert source.tolist() == [[9, 9, 9, EOS], [8, EOS, PAD, PAD]]
    assert target.tolist() == [[BOS, 7, PAD], [BOS, 5, 6]]
    assert batch.target_output.tolist() == [[7, EOS, PAD], [5, 6, EOS]]
    assert rows.lengths.tolist() == [[6, 3], [8, 2]]  # patches count as positions
    assert rows.extent(1) == "4 patches, 3 and 1 tokens"
