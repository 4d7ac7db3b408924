"""Presets of tasks on images: each architecture has its own."""

from crosshead.addons.vision.presets import PRESETS
from crosshead.models.registry import CONFIGS
from crosshead.recipe import presets


def test_every_model_of_images_has_presets() -> None:
    tasks = {"classification", "captioning", "multimodal"}
    names = {name for name, config in CONFIGS.items() if config.task in tasks}
    assert names == PRESETS.keys()
    assert all(presets.PRESETS[name] == PRESETS[name] for name in names)
