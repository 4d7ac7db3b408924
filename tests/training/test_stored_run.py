"""A run that an earlier commit (e700801) saved goes on as it would have gone on there."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from crosshead.tasks.registry import load_bundle
from crosshead.text.parallel import held_out
from crosshead.training.run import train
from crosshead.training.settings import resumed_recipe
from tests.training.runs import Remembering, logged

STORED = Path(__file__).parent.parent / "fixtures" / "run-format-1"
LOSSES = [3.520035743713379, 3.4847585317250847, 3.650292558921613, 3.488931862219657]
"""Losses of updates 5 to 8, as the commit that saved the run computed them."""


def test_a_stored_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # That commit drew the held-out pairs from all pairs, also from those that repeat others.
    monkeypatch.setattr(held_out, "_first_rows", lambda text: np.arange(len(text)))
    out = Path(shutil.copytree(STORED, tmp_path / "stored"), "model")
    display = Remembering()
    recipe = resumed_recipe(out, None, {"train": {"max_updates": 8}}, [])
    summary = train(recipe, out, resume=True, display=display)
    assert summary.progress.update == 8
    assert "resuming from update 4" in display.lines[0]
    assert not any("bit-identical" in line for line in display.lines)
    found = [row["loss"] for row in logged(out) if row["kind"] == "train" and row["update"] > 4]
    assert found == pytest.approx(LOSSES, rel=1e-4)
    assert load_bundle(out).config.model == recipe.model
