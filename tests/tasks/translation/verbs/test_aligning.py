from pathlib import Path

import pytest

from crosshead.cli import run
from tests.cli.tools import BUNDLE, Refused, output_of


def test_links_are_printed_and_compared(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, target, gold = (tmp_path / name for name in ("source", "target", "gold"))
    source.write_text("one two\n\nthree\n")
    target.write_text("eins zwei\n\ndrei\n")
    command = ["align", str(BUNDLE), "--source", str(source), "--target", str(target)]
    found = output_of(command, capfd)
    first, second, third = found.split("\n")[:3]
    assert first.count("-") >= 1 and second == "" and third == "0-0"
    both = output_of([*command, "--symmetry", "intersection"], capfd).splitlines()
    assert set(both[0].split()) <= set(first.split())
    gold.write_text(found)
    assert run([*command, "--gold", str(gold)]) == 0
    printed = capfd.readouterr()
    assert printed.out == found
    assert printed.err == "crosshead: alignment error rate 0.0000\n"


def test_links_that_cannot_be_read_are_refused_before_any_are_printed(
    tmp_path: Path, refused: Refused
) -> None:
    for name in ("source", "target"):
        (tmp_path / name).write_text("one\ntwo\n")
    (tmp_path / "gold").write_text("0-0\n1=1\n")
    files = [f"--{name}={tmp_path / name}" for name in ("source", "target", "gold")]
    assert "gold:2: expected links" in refused("align", BUNDLE, *files)
    (tmp_path / "gold").write_text("0-0\n")
    assert "gold" in refused("align", BUNDLE, *files)
