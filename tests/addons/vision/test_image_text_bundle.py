"""Bundles of models that read images and write text."""

from pathlib import Path

import pytest
import torch

from crosshead.addons.vision.image_text_bundle import ImageTextBundle
from crosshead.bundle.io import save_bundle
from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.tasks.registry import load_bundle
from crosshead.vocabulary import BOS, EOS, PAD, UNK
from tests.addons.vision.small_captioners import captioner


def test_a_bundle_that_is_saved_is_loaded_again(tmp_path: Path) -> None:
    before = captioner().bundle
    save_bundle(tmp_path, before, "a card")
    after = load_bundle(tmp_path)
    assert isinstance(after, ImageTextBundle) and after.config == before.config
    for name, weight in before.model.state_dict().items():
        assert torch.equal(weight, after.model.state_dict()[name])
    assert after.source_tokenizer is after.target_tokenizer


def test_a_caption_begins_and_ends_and_has_a_longest_length() -> None:
    bundle = captioner().bundle
    assert (bundle.specials.start, bundle.specials.eos) == (BOS, EOS)
    assert set(bundle.specials.forbidden) >= {PAD, BOS, UNK}
    assert bundle.config.most_tokens == 13  # one and a half times 8, and the end
    learned = captioner(positions="learned", max_length=9).bundle
    assert learned.config.most_tokens == 9


def test_bundles_for_images_of_other_sizes_are_not_averaged() -> None:
    one, other = captioner().bundle, captioner(size=16).bundle
    assert one.why_not_averaged(captioner().bundle) == ""
    assert "its images have 16 pixels" in one.why_not_averaged(other)
    assert "tokenizer" in one.why_not_averaged(captioner("characters").bundle)


@pytest.mark.parametrize("change", [{"image_size": 0}, {"longest_target": 0}])
def test_impossible_sizes_are_refused(change: dict[str, int]) -> None:
    config = captioner().bundle.config
    with pytest.raises(ConfigError):
        validate(type(config), {**config.model_dump(), **change})
