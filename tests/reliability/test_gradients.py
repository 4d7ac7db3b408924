"""Gradients that are not finite are left out and counted; a run of nothing else ends."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crosshead.cli import run
from crosshead.tasks.token_loss import token_loss
from crosshead.tasks.token_task import TokenTask
from crosshead.tasks.validation import Loss
from crosshead.training import updater
from crosshead.training.updater import draw_seed
from tests.parameters import mostly_slow
from tests.reliability.tools import SEED, train_flags, write_corpus

Record = Callable[[str], None]

UPDATES = 100


def spoil(monkeypatch: pytest.MonkeyPatch, bad: set[int], value: str) -> None:
    """Make the losses of those updates, counted from 0, and so their gradients `value`."""
    now = 0

    def noted(seed: int, update: int, microbatch: int) -> int:
        nonlocal now
        now = update
        return draw_seed(seed, update, microbatch)

    def spoiled(*arguments: Any, **named: Any) -> Any:
        sums = token_loss(*arguments, **named)
        if now not in bad:
            return sums
        return Loss({**sums.sums, "loss": sums.sums["loss"] * float(value)}, sums.count)

    monkeypatch.setattr(updater, "draw_seed", noted)
    monkeypatch.setattr(TokenTask, "loss", staticmethod(spoiled))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("percent", "value"),
    mostly_slow([(1, "nan"), (10, "nan"), (1, "inf"), (10, "inf")], [(10, "inf")]),
)
def test_some_updates_without_finite_gradients_are_left_out(
    percent: int,
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    record: Record,
) -> None:
    write_corpus(tmp_path)
    bad = set(random.Random(SEED).sample(range(UPDATES), percent))
    spoil(monkeypatch, bad, value)
    settings = {"max_updates": str(UPDATES), "valid_every": "50", "checkpoint_every": "50"}
    assert run(["train", *train_flags(tmp_path, tmp_path / "out", **settings)]) == 0
    log = [json.loads(line) for line in (tmp_path / "out/log.jsonl").read_text().splitlines()]
    assert [line["skipped"] for line in log if line["kind"] == "train"][-1] == percent
    said = capfd.readouterr().err
    assert f"{percent} update" in said and "gradients were not finite" in said
    record(f"{value} in {percent} of {UPDATES} updates: as many left out and counted, trained on")


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_nothing_but_infinite_gradients_ends_the_run(
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    record: Record,
) -> None:
    write_corpus(tmp_path)
    out = tmp_path / "out"
    with monkeypatch.context() as broken:
        spoil(broken, set(range(UPDATES)), value)
        assert run(["train", *train_flags(tmp_path, out)]) == 2
    said = capfd.readouterr().err.splitlines()[-1]
    assert "the gradients of 10 updates in a row, up to update 10, were not finite" in said
    record(f"{value} in all updates: ended after 10")
