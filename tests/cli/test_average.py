"""`average`, as a user types it."""

from pathlib import Path

import pytest

import crosshead
from tests.cli.tools import BUNDLE, Refused, output_of

LINES = ["one two", "", "seven"]


def test_the_average_of_a_bundle_and_itself_is_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output_of(["average", BUNDLE, BUNDLE, "--out", tmp_path / "mean"], capfd)
    assert crosshead.load(tmp_path / "mean")(LINES) == crosshead.load(BUNDLE)(LINES)


def test_an_average_that_cannot_be_made_is_refused(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "mine").write_text("not a bundle")
    assert "two bundles" in refused("average", BUNDLE, "--out", tmp_path / "mean")
    said = refused("average", BUNDLE, BUNDLE, "--out", tmp_path)
    assert "already exists" in said
