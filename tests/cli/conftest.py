from pathlib import Path

import pytest

from crosshead.cli import run
from tests.cli.tools import Refused


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Refused:
    """Run a command line that must be refused, and return the one line that says why."""

    def call(*arguments: object) -> str:
        code = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert code == 2, captured.err
        assert captured.out == ""
        said = captured.err.splitlines()
        assert len(said) == 1, captured.err
        assert said[0].startswith("crosshead: error: ")
        return said[0]

    return call


@pytest.fixture
def corpus(tmp_path: Path) -> list[object]:
    """The flags of a training run that would work."""
    (tmp_path / "source").write_text("".join(f"a {n} b\n" for n in range(30)))
    (tmp_path / "target").write_text("".join(f"b {n} a\n" for n in range(30)))
    return ["--source", tmp_path / "source", "--target", tmp_path / "target"]
