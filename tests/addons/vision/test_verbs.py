"""The kinds of `translate`, `evaluate` and `train` for images: options, and what is refused."""

from pathlib import Path

import pytest

from tests.cli.tools import BUNDLE, Refused, output_of


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--images", "a", "--images", "b"], "give one folder or archive of images with classes"),
        (["--images", "a", "--stride", "3"], "--stride is not for --images"),
        (["--captions", "a"], "--captions is not for translations"),
        (["--images", "a", "--pairs", "b", "--to", "de"], "--to is not for --images with --pairs"),
    ],
)
def test_data_of_other_kinds_are_refused(typed: list[str], words: str, refused: Refused) -> None:
    assert words in refused("evaluate", BUNDLE, *typed)


@pytest.mark.parametrize("option", [["--glossary", "x"], ["--to", "de"], ["--format", "html"]])
def test_sentences_beside_images_have_fewer_options(
    option: list[str], tmp_path: Path, refused: Refused
) -> None:
    said = refused("translate", BUNDLE, tmp_path / "x", "--images", tmp_path, *option)
    assert said.endswith(f"{option[0]} is not for --images")


def test_the_help_of_train_has_the_options_on_demand(capfd: pytest.CaptureFixture[str]) -> None:
    assert "--captions" not in output_of(["train", "--help"], capfd)
    assert "--captions" in output_of(["train", "--help", "images"], capfd)
