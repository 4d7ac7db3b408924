"""What the tests of the command line share: commands, a small model, and what it is trained on."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.cli import run
from tests import preloaded

ROOT = Path(__file__).parent.parent.parent
BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1-sealed"
COMMAND = [sys.executable, "-m", "crosshead"]
"""A process of its own, for tests of its start, its end, its limits, and signals."""
TINY = [
    *("--set", "tokenizer.kind=characters", "--set", "model.encoder_layers=1"),
    *("--set", "model.decoder_layers=1", "--set", "model.d_model=16", "--set", "model.d_ff=16"),
    *("--set", "model.heads=2", "--set", "precision=float32", "--set", "train.batch_tokens=512"),
    *("--set", "metric=loss", "--set", "valid_every=10", "--set", "log_every=5"),
    *("--threads", "1", "--device", "cpu"),
]

Refused = Callable[..., str]
"""`refused` of these arguments: it is, and says why in this one line."""


def preloaded_command() -> list[str]:
    """The command `crosshead` as a fork, which starts in milliseconds."""
    return [*preloaded.command(), "-m", "crosshead"]


def output_of(arguments: list[object], capfd: pytest.CaptureFixture[str]) -> str:
    code = run([str(argument) for argument in arguments])
    captured = capfd.readouterr()
    assert code == 0, captured.err
    return captured.out


def environment() -> dict[str, str]:
    # An ASCII locale: what is written is UTF-8 all the same.
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "LC_ALL": "C"}


def write_corpus(folder: Path) -> tuple[Path, Path]:
    words = [a + b + c for a in "abc" for b in "abc" for c in "ab"]
    pairs = [f"{left} {right}" for left in words for right in words[::2]]
    source, target = folder / "source.txt", folder / "target.txt"
    source.write_text("\n".join([*pairs, ""]) + "\n")
    target.write_text("\n".join([pair.upper() for pair in [*pairs, "empty"]]) + "\n")
    return source, target
