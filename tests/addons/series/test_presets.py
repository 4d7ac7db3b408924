"""Presets of forecasting: each architecture has its own."""

from crosshead.addons.series.presets import PRESETS
from crosshead.models.registry import CONFIGS
from crosshead.recipe import presets


def test_every_forecaster_has_presets() -> None:
    names = {name for name, config in CONFIGS.items() if config.task == "forecasting"}
    assert names == PRESETS.keys()
    assert all(presets.PRESETS[name] == PRESETS[name] for name in names)
