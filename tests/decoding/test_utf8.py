"""A model that may write any bytes only writes text."""

import pytest
import torch

from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import search, stream
from crosshead.decoding.settings import DecodeConfig
from crosshead.decoding.utf8 import HIGH, states, whole
from crosshead.vocabulary import BOS, EOS, PAD, UNK
from tests.decoding.test_markup import Babbler

IDS = tuple(range(10, 138))
"""The pieces of the high bytes."""

SPECIALS = Specials(BOS, EOS, (PAD, BOS, UNK), (), IDS)


class Bytes(Babbler):
    def step(self, state, tokens):
        return torch.randn(state.count, 140, generator=self.generator), state


def text(tokens: list[int]) -> str:
    found = b"".join(bytes([HIGH + IDS.index(each)]) if each in IDS else b"a" for each in tokens)
    return found.decode()  # which refuses what is not UTF-8


@pytest.mark.parametrize("sample", [False, True])
def test_only_valid_characters_are_written(sample: bool) -> None:
    decode = DecodeConfig(beam=1, sample=True) if sample else DecodeConfig(beam=4)
    with torch.inference_mode():
        found = search(Bytes(), torch.zeros(9, 1), torch.full((9,), 400), SPECIALS, decode, 4)
    ended = [each for hypotheses in found for each in hypotheses if each.finished]
    assert len(ended) > 9
    assert any(character > "\uffff" for each in ended for character in text(each.tokens))


def test_the_length_limit_cuts_between_characters() -> None:
    with torch.inference_mode():
        found = search(
            Bytes(), torch.zeros(99, 1), torch.full((99,), 9), SPECIALS, DecodeConfig(), 4
        )
    cut = [each for hypotheses in found for each in hypotheses if not each.finished]
    assert any(len(each.tokens) < 9 for each in cut)
    assert min(len(each.tokens) for each in cut) >= 6


@pytest.mark.parametrize("count", range(4))
def test_only_an_incomplete_character_is_cut(count: int) -> None:
    begun = [IDS[each - HIGH] for each in "😆".encode()[:count]]
    assert whole([5] * 20 + begun, IDS) == 20


def test_a_stream_is_text() -> None:
    tokens = list(stream(Bytes(), torch.full((1, 1), BOS), 400, SPECIALS, DecodeConfig(beam=1)))
    assert tokens[-1] == EOS
    assert len(text(tokens[:-1])) > 9


@pytest.mark.parametrize("character", ["a", "é", "€", "한", "😆", "\U0010ffff"])
def test_a_row_is_complete_after_each_character(character: str) -> None:
    ids = [IDS[each - HIGH] if each >= HIGH else 5 for each in f"x{character}".encode()]
    for count in range(1, len(ids) + 1):
        state = states(torch.tensor([ids[:count]]), torch.tensor(IDS))
        assert (int(state) == 0) == (count in (1, len(ids)))
