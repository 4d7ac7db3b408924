"""The calls from the command line to the backend are the ones that ARCHITECTURE.md shows."""

import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import pytest
from torch import Tensor

from crosshead.attention import attend
from crosshead.cli import run
from tests.conftest import ROOT
from tests.cores import CORES

MOST = 10
PACKAGE = str(ROOT / "crosshead")


@pytest.fixture
def chains(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, ...]]:
    """The functions of the package that were active in each call of a backend, outermost first."""
    found: set[tuple[str, ...]] = set()
    kernel = attend.explicit

    def noted(*arguments: Tensor, **named: object) -> Tensor:
        found.add((*reversed(list(functions(inspect.currentframe()))), "attention.attend.explicit"))
        return kernel(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(attend, "explicit", noted)
    return found


def functions(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        if found := name_of(frame.f_code):
            yield found
        frame = frame.f_back


@cache
def name_of(code: CodeType) -> str:
    """The module and the name of a function of the package; nothing for other code."""
    if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
        return ""
    module = Path(code.co_filename).relative_to(PACKAGE).with_suffix("")
    return ".".join((*module.parts, code.co_qualname))


def documented(verb: str) -> list[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    shown = re.search(rf"^## From `crosshead {verb}`.*?```text\n(.*?)```", text, re.M | re.S)
    assert shown, f"ARCHITECTURE.md shows no chain of calls from crosshead {verb}"
    return shown[1].split()


def from_verb(chains: set[tuple[str, ...]], verb: str) -> list[list[str]]:
    return [list(chain[chain.index(verb) :]) for chain in chains]


@pytest.fixture
def corpus(tmp_path: Path) -> list[str]:
    for name in ("en", "de"):
        (tmp_path / name).write_text("".join(f"{name} {i % 7} words\n" for i in range(40)))
    return ["--source", str(tmp_path / "en"), "--target", str(tmp_path / "de")]


def test_from_train_and_translate_to_the_kernel(
    corpus: list[str], chains: set[tuple[str, ...]], tmp_path: Path
) -> None:
    out = str(tmp_path / "run")
    settings = ["tokenizer.kind=characters", "d_model=16", "d_ff=16", "heads=2", "max_extra=3"]
    sizes = [part for each in settings for part in ("--set", each)]
    sizes += ["--max-updates", "2", "--threads", "1"]
    for verb, arguments in {
        "train": [*corpus, "--out", out, "--preset", "tiny", *sizes],
        "translate": [out, corpus[1], "--threads", "1"],
    }.items():
        chains.clear()
        assert run([verb, *arguments]) == 0
        expected = documented(verb)
        assert len(expected) <= MOST
        # Training also tries a batch, validates and scores, by other calls.
        begin = expected[:4]
        ours = [found for found in from_verb(chains, expected[0]) if found[:4] == begin]
        assert expected in ours
        # The encoder's layers are one call further: `encode` serves training and decoding.
        assert max(map(len, ours)) == len(expected) + 1


@pytest.mark.skipif(len(CORES) == 1, reason="two threads need two cores")
@pytest.mark.usefixtures("all_cores")
def test_threads_add_two_functions(
    corpus: list[str], chains: set[tuple[str, ...]], tmp_path: Path
) -> None:
    settings = [
        "tokenizer.kind=words", "d_model=16", "d_ff=16", "heads=8", "encoder_layers=1",
        "decoder_layers=1", "max_extra=0", "decode.beam=1",
    ]  # fmt: skip
    sizes = ["--preset", "tiny", *(part for each in settings for part in ("--set", each))]
    budget = ["--max-updates", "2", "--threads", "2"]
    assert run(["train", *corpus, "--out", str(tmp_path / "run"), *sizes, *budget]) == 0
    # A thread begins with its own frame: `gradients` and the functions before it started it.
    begin = "training.updater.Updater._in_parallel.<locals>.compute"
    expected = documented("train")
    turn = expected.index("training.updater.Updater.gradients") + 1
    assert [begin, *expected[turn:]] in [list(chain) for chain in chains]
