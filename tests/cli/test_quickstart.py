"""The commands of `make quickstart`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import crosshead
from crosshead.evaluation import exact_match
from crosshead.system.lines import read_lines
from tests.cli.tools import ROOT, TINY
from tests.preloaded import folder_for_path


def make_quickstart(folder: Path, *more: str, lines_of_text: int = 20_000) -> str:
    """Run the commands on some lines, with further options of `train`, and return the output."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    lines = makefile.partition("\nquickstart:")[2].partition("\n\n")[0].split("\n\t")[1:]
    lines.insert(1, f"sed -i '{lines_of_text + 1},$d' $(DATES)/*.??")
    script = "\n".join(lines).replace("$(BIN)/", "").replace("$(DATES)", str(folder))
    script = script.replace("--force", " ".join(["--force", *more]))
    folders = [folder_for_path(), str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        env={**os.environ, "PATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_runs_from_nothing_to_translations(tmp_path: Path) -> None:
    folder = tmp_path / "dates"
    short = [*TINY, "--max-updates", "2", "--set", "decode.max_extra=2"]
    said = make_quickstart(folder, *short, lines_of_text=40)
    assert "BLEU" in said and "cross-attention: " in said
    assert (folder / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert crosshead.load(folder / "model").bundle.config.model.d_model == 16


@pytest.mark.slow
def test_dates_never_seen_are_translated(tmp_path: Path) -> None:
    make_quickstart(tmp_path)
    translate = crosshead.load(tmp_path / "model")
    source, target = (read_lines(tmp_path / f"test.{code}") for code in ("en", "de"))
    assert exact_match(translate(source), target) >= 0.98
