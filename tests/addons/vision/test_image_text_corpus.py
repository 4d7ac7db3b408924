"""Data of tasks on images with text: the recipe, the sets and the files."""

from pathlib import Path
from typing import Any

import pytest

from crosshead.addons.vision.data.caption_sets import CAPTIONS
from crosshead.addons.vision.image_text_corpus import card_files, read_sets
from crosshead.errors import ConfigError, DataError
from crosshead.recipe.compose import compose
from tests.text.written import write, write_captions


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_captions(tmp_path, 12, each=2)


def recipe(*assignments: str, **data: Any) -> Any:
    data = {"images": ["images"], "captions": ["captions.jsonl"], **data}
    return compose(flags={"data": data}, assignments=assignments)


def sets(of: Any) -> Any:
    return read_sets(of, None, CAPTIONS)


def test_images_are_held_out_unless_there_are_files_for_validation() -> None:
    train, valid, patches = sets(recipe("model.patch_size=8"))
    assert (len(train.names), len(valid.names), patches) == (11, 1, 9)
    assert not set(train.names) & set(valid.names)
    train, valid, _ = sets(recipe(valid_captions=["captions.jsonl"]))
    assert train.names == valid.names and len(train.names) == 12


def test_the_validation_images_have_the_size_of_the_training_images() -> None:
    train, valid, patches = sets(
        recipe("model.patch_size=8", "data.image_size=16", valid_captions=["captions.jsonl"])
    )
    assert train.pixels.shape[1:] == valid.pixels.shape[1:] == (16, 16, 3) and patches == 4


def test_a_recipe_whose_keys_do_not_fit_together_is_refused() -> None:
    for assignments, words in (
        (["data.image_size=30"], "30 pixels are not divisible into patches of 4"),
        (["tokenizer.kind=bpe", "tokenizer.sampling=0.1"], "for translation without images"),
        (["model.positions=learned", "model.max_length=8", "data.max_length=8"], "8 learned pos"),
    ):
        with pytest.raises(ConfigError, match=words):
            recipe(*assignments)


def test_missing_data_are_refused_by_the_name_of_the_options() -> None:
    with pytest.raises(DataError, match=r"folder of images \(--images\) and a file of captions"):
        sets(recipe(images=[]))


def test_the_card_has_the_lines_of_each_file_of_text() -> None:
    write(Path("a.txt"), "000.png\tone\n001.png\ttwo\n002.png\tthree\n")
    files = card_files(recipe(captions=["captions.jsonl", "a.txt"]).data)
    assert [(each.path, each.lines) for each in files] == [("captions.jsonl", 24), ("a.txt", 3)]
