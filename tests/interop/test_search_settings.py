"""The length penalty that travels is the one nearest to the model's own search."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from crosshead.data.batching import Example
from crosshead.interop import search_settings
from crosshead.interop.base import ForeignSearch
from crosshead.interop.search_settings import PENALTIES, choose_search, usual_search
from tests.interop.small_bundles import small_bundle

SENTENCES = [f"sentence {n} has some more words than four" for n in range(15)]
SOURCES = [f"source {n}" for n in range(15)]
RIGHT = dict(zip(SOURCES, SENTENCES, strict=True))


@pytest.fixture(autouse=True)
def _fluent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let crosshead translate into whole sentences, which have a BLEU."""
    monkeypatch.setattr(search_settings, "Translator", lambda bundle: lambda lines: SENTENCES)


class OneIsRight:
    """A library that translates like crosshead with one exponent, and badly with the others."""

    def __init__(self, right: dict[str, str], exponent: float) -> None:
        self.right, self.exponent = right, exponent
        self.tried: list[float] = []

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        self.tried.append(search.length_penalty)
        good = search.length_penalty == self.exponent
        return [self.right[line] if good else "nothing like it" for line in lines]

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        raise AssertionError("no log-probabilities are needed")


def test_the_exponent_with_the_nearest_bleu_is_chosen() -> None:
    bundle = small_bundle(beam=2)
    library = OneIsRight(RIGHT, 0.8)
    chosen = choose_search(bundle, library, SOURCES, SENTENCES)
    assert library.tried == list(PENALTIES)
    assert chosen.search.length_penalty == 0.8
    assert chosen.own_bleu == chosen.foreign_bleu == pytest.approx(100)
    assert "BLEU on 15 validation lines 100.00, crosshead 100.00 (+0.00)" in str(chosen)


def test_greedy_search_has_nothing_to_choose() -> None:
    bundle = small_bundle(beam=1)
    library = OneIsRight(RIGHT, 0.48)
    chosen = choose_search(bundle, library, SOURCES, SENTENCES)
    assert library.tried == [0.48] and chosen.foreign_bleu == pytest.approx(100)


def test_an_imported_penalty_travels_unchanged() -> None:
    bundle = small_bundle(beam=4)
    decode = bundle.config.decode.model_copy(update={"length_penalty": 0.625, "length_offset": 0.0})
    imported = replace(bundle, config=bundle.config.model_copy(update={"decode": decode}))
    assert usual_search(imported).length_penalty == 0.625
    library = OneIsRight(RIGHT, 0.625)
    chosen = choose_search(imported, library, SOURCES, SENTENCES)
    assert library.tried == [0.625] and chosen.search.length_penalty == 0.625


def test_without_validation_data_the_penalties_grow_alike_at_the_usual_length() -> None:
    bundle = small_bundle(beam=3)
    search = usual_search(bundle)
    # The derivative of log ((5 + n) / 6)^0.6 by log n at n = 20 is 0.6 * 20 / 25.
    assert search.length_penalty == pytest.approx(0.6 * 20 / 25)
    assert (search.beam, search.max_length) == (3, 41)
