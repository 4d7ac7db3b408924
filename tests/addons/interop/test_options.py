"""Options are found in the bundles that have them, and in no others."""

import pytest

from crosshead.addons.interop.options import OPTIONS
from tests.addons.interop.cells import NAMES
from tests.addons.interop.small_bundles import bundle_with, small_bundle

USUAL = {
    "model.architecture = transformer", "model.norm = post", "model.activation = relu",
    "model.score = scaled-dot", "model.positions = sinusoidal", "model.tie = three-way",
    "model.start = bos", "tokenizer.kind = bpe",
}  # fmt: skip


def test_a_usual_bundle_has_the_usual_options() -> None:
    bundle = small_bundle(ends=False)
    assert {name for name, option in OPTIONS.items() if option.holds(bundle)} == USUAL


@pytest.mark.parametrize("name", [name for name in NAMES if name not in USUAL])
def test_an_option_is_found_in_its_own_example(name: str) -> None:
    option = OPTIONS[name]
    assert option.holds(bundle_with(option, ends=False))


def test_a_registered_score_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = small_bundle(ends=False)
    config = bundle.config.model.model_copy(update={"score": "mine"})
    monkeypatch.setitem(bundle.config.__dict__, "model", config)
    assert OPTIONS["model.score = (registered by a program)"].holds(bundle)
    assert not OPTIONS["model.positions = (registered by a program)"].holds(bundle)


def test_sampling_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = small_bundle(ends=False)
    decode = bundle.config.decode.model_copy(update={"sample": True})
    monkeypatch.setitem(bundle.config.__dict__, "decode", decode)
    assert OPTIONS["decode.sample = true"].holds(bundle)


def test_a_tag_of_an_imported_vocabulary_is_a_target_language() -> None:
    bundle = small_bundle({}, {"kind": "sentencepiece", "special": [">>fra<<"]}, ends=False)
    assert OPTIONS["several target languages"].holds(bundle)
    assert not OPTIONS["an imported vocabulary without padding or start"].holds(bundle)
