import json
import re
from pathlib import Path
from typing import Any

import pytest

from crosshead.cli import quickstart
from crosshead.tasks.registry import load_bundle
from crosshead.text import synthetic
from tests.recipe.composing import new_recipe


def short_recipe(preset: str | None, recipe: str | None, flags: Any) -> Any:
    """The quickstart's recipe, of a small model and for a few updates."""
    short = ["max_updates=2", "valid_every=2", "log_every=1", "d_model=16", "d_ff=16", "heads=2"]
    short += ["encoder_layers=1", "decoder_layers=1", "vocab_size=350", "decode.max_extra=2"]
    return new_recipe(preset, recipe, flags, [*short, "threads=1", "device=cpu"])


def test_it_runs_from_nothing_to_translations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(synthetic, "HELD_OUT", 8)
    monkeypatch.setattr(quickstart, "date_pairs", lambda: synthetic.date_pairs(size=200))
    monkeypatch.setattr(quickstart, "run_recipe", short_recipe)
    quickstart.run(tmp_path)
    said = capfd.readouterr().out
    assert "200 dates in English and German" in said
    assert "exact matches on 8 dates never seen" in said
    assert "exact matches on 8 dates in patterns never seen" in said
    assert all(source in said for source in quickstart.SHOWN)
    assert f"translate {tmp_path}/model\n" in said
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert load_bundle(tmp_path / "model").config.model.d_model == 16
    monkeypatch.setattr(quickstart, "show", lambda *made: None)
    quickstart.run(tmp_path)  # once more, in the place of the first


@pytest.mark.slow
def test_dates_never_seen_are_translated(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    quickstart.run(tmp_path)
    said = capfd.readouterr().out
    matches = re.search(r"exact matches on 500 dates never seen: ([\d.]+)%", said)
    assert matches
    assert float(matches[1]) >= 98
    last = json.loads((tmp_path / "model" / "log.jsonl").read_text().splitlines()[-1])
    assert last["kind"] == "end"
