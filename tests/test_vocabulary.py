"""The ids of special tokens, which stored bundles rely on."""

from pathlib import Path

import pytest

from crosshead.tasks.registry import load_bundle
from crosshead.text.symbols import CONTROL
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.vocabulary import BOS, EOS, MASK, PAD, UNK

STORED = Path(__file__).parent / "fixtures" / "bundle-format-1"
NAMES = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNK: "<unk>"}


def test_the_special_ids_are_the_first_ones_of_every_vocabulary() -> None:
    assert sorted(NAMES) == [0, 1, 2, 3]
    assert tuple(NAMES[token] for token in sorted(NAMES)) == CONTROL
    assert MASK not in (PAD, EOS, UNK)


def test_a_stored_bundle_has_these_ids() -> None:
    bundle = load_bundle(STORED)
    for tokenizer in (bundle.source_tokenizer, bundle.target_tokenizer):
        assert dict(zip(NAMES, tokenizer.pieces(list(NAMES)), strict=True)) == NAMES
    assert bundle.specials.start == BOS and bundle.specials.eos == EOS
    assert {PAD, BOS, UNK} < set(bundle.specials.forbidden)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters", "bytes"])
def test_every_kind_of_tokenizer_gives_these_ids(kind: str) -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind=kind, vocab_size=265), ["ab ba abba"] * 20)
    assert dict(zip(NAMES, tokenizer.pieces(list(NAMES)), strict=True)) == NAMES
    assert not set(tokenizer.encode("ab ba")) & set(NAMES)
