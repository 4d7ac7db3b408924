import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.decoding.hypotheses import NOTHING
from crosshead.errors import DamagedBundle
from crosshead.models.language import LanguageConfig
from crosshead.text.profile import TextProfile
from crosshead.text.tokenizers import TOKENIZER_FILES
from crosshead.vocabulary import BOS, EOS, PAD, UNK
from tests.bundle.stored import STORED
from tests.bundle.text_bundles import PAIRS, SMALL, bundle_of


@pytest.mark.parametrize("target", [None, "cde"], ids=["joint", "separate"])
def test_tokenizers_that_are_written_are_read_again(target: str | None, tmp_path: Path) -> None:
    bundle = bundle_of(target=target)
    for name, data in bundle.files().items():
        assert name in TOKENIZER_FILES
        (tmp_path / name).write_bytes(data)
    found = TextBundle.read(tmp_path, bundle.config)
    for side in ("source_tokenizer", "target_tokenizer"):
        before, after = getattr(bundle, side), found[side]
        every = list(range(before.vocab_size))
        assert after.vocab_size == before.vocab_size and after.pieces(every) == before.pieces(every)
    assert (found["source_tokenizer"] is found["target_tokenizer"]) == (target is None)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_tokenizer_of_another_size_than_the_model_is_damage(side: str, tmp_path: Path) -> None:
    bundle = bundle_of()
    for name, data in bundle.files().items():
        (tmp_path / name).write_bytes(data)
    size = getattr(bundle.config, f"{side}_vocabulary")
    config = bundle.config.model_copy(update={f"{side}_vocabulary": size + 1})
    message = rf"the {side} tokenizer has {size} pieces, but config\.json says {size + 1}"
    with pytest.raises(DamagedBundle, match=message):
        TextBundle.read(tmp_path, config)


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    shutil.copytree(STORED, tmp_path / "bundle")
    (tmp_path / "bundle" / "tokenizer.json").unlink()
    with pytest.raises(DamagedBundle, match=r"tokenizer\.json"):
        TextBundle.read(tmp_path / "bundle", bundle_of(target=None).config)


def test_the_model_has_the_two_vocabularies() -> None:
    bundle = bundle_of()
    config, model = bundle.config, bundle.model
    assert config.source_vocabulary != config.target_vocabulary
    logits = model(torch.tensor([[config.source_vocabulary - 1, EOS]]), torch.tensor([[BOS, 4]]))
    assert logits.shape == (1, 2, config.target_vocabulary)


def test_a_translation_begins_and_ends_and_monolingual_text_goes_on() -> None:
    pairs = bundle_of(source="ab", target="c\nd")
    assert (pairs.specials.start, pairs.specials.eos) == (BOS, EOS)
    other = bundle_of(model=PAIRS.model_copy(update={"start": "pad"}))
    assert other.specials.start == PAD != pairs.specials.start
    alone = bundle_of(target=None, model=LanguageConfig(layers=1, **SMALL))
    assert (alone.specials.start, alone.specials.eos) == (EOS, NOTHING)
    for bundle in (pairs, other, alone):
        assert {PAD, BOS, UNK} <= set(bundle.specials.forbidden)
        assert EOS not in bundle.specials.forbidden
        assert bundle.target_tokenizer.line_breaks <= set(bundle.specials.forbidden)


def test_an_average_reaches_as_far_as_the_longest() -> None:
    bundles = [bundle_of(longest=longest) for longest in (10, 30, 20)]
    merged = bundles[0].merged(bundles[1:])
    assert merged == bundles[0].config.model_copy(update={"longest_source": 30})
    assert replace(bundles[0], config=merged).longest_input == 30


@pytest.mark.parametrize(
    ("source", "target", "same"),
    [("aab", "cde", True), ("abb", "cde", False), ("aab", "cdf", False), ("aabc", "cde", False),
     ("aab", None, False)],
)  # fmt: skip
def test_only_bundles_of_one_tokenizer_are_averaged(
    source: str, target: str | None, same: bool
) -> None:
    """The order of the pieces counts: it is the order of the rows of the embedding."""
    first = bundle_of("aab", "cde")
    why = first.why_not_averaged(bundle_of(source, target))
    assert (why == "") == same
    assert bundle_of("ab", None).why_not_averaged(bundle_of("ab", "ab"))  # pieces alone are not all
    assert same or "its tokenizer differs from the tokenizer of {first}; only bundles" in why


def test_a_profile_is_stored_and_loaded() -> None:
    config = bundle_of().config
    size = {"rate": 0.5, "low": -1.0, "high": 1.0}
    values = {
        "pairs": 100, "scripts": {"LATIN": 1.0}, "pieces": size, "unknown": size, "length": size,
        "copies": 0.0, "lost_numbers": 0.0, "words": {"known": "a b", "others": size},
    }  # fmt: skip
    profiled = config.model_copy(update={"profile": TextProfile.model_validate(values)})
    stored = profiled.model_dump(mode="json")
    assert stored["profile"] == values
    assert TextBundleConfig.model_validate(stored) == profiled
