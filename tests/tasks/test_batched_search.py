from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crosshead.bundle.base import Bundle
from crosshead.decoding.hypotheses import Hypothesis
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import BundleError
from crosshead.tasks import batched_search
from crosshead.tasks.batched_search import TokenInputs, search_all
from crosshead.tasks.registry import load_bundle
from crosshead.text.tokenizers import token_ids
from tests.parameters import mostly_slow

STORED = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"
WORDS = ["One", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
LINES = [" ".join(WORDS[i % 10 : i % 10 + i % 7 + 1]) + "." for i in range(60)]
BEAM = DecodeConfig(beam=3)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return load_bundle(STORED)


@pytest.fixture
def _threads() -> Iterator[None]:
    """Four threads, and the number before put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def found_with(bundle: Bundle, decode: DecodeConfig = BEAM, **options: object) -> list[list[str]]:
    sources = token_ids(bundle.source_tokenizer, LINES)
    found = search_all(bundle.model, TokenInputs(sources), bundle.specials, decode, **options)  # type: ignore[arg-type]
    return [[bundle.target_tokenizer.decode(each.tokens) for each in best] for best in found]


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize(
    "decode", mostly_slow([BEAM, DecodeConfig(beam=1, sample=True, seed=3)], [BEAM])
)
def test_batches_side_by_side_find_what_they_find_one_after_the_other(
    decode: DecodeConfig, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batched_search, "LEAST_TOKENS", 20)
    small = decode.model_copy(update={"batch_tokens": 80})
    shares: list[float] = []
    several = found_with(bundle, small, n_best=2, progress=shares.append)
    assert len(shares) > 8 and shares == sorted(shares) and (shares[0], shares[-1]) == (0, 1)
    assert torch.get_num_threads() == 4
    torch.set_num_threads(1)
    assert found_with(bundle, small, n_best=2) == several
    assert found_with(bundle, decode, n_best=2) == several
    assert len({tuple(best) for best in several}) > 20


@pytest.mark.usefixtures("_threads")
def test_threads_share_the_cores_and_the_budget(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    searched = batched_search.search

    def watched(model: object, source: torch.Tensor, *others: object) -> list[list[Hypothesis]]:
        seen.append((torch.get_num_threads(), source.numel()))
        return searched(model, source, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(batched_search, "search", watched)
    monkeypatch.setattr(batched_search, "LEAST_TOKENS", 60)
    found_with(bundle, BEAM.model_copy(update={"batch_tokens": 120}))
    assert {threads for threads, _ in seen} == {2}  # two workers of two threads each
    assert max(tokens for _, tokens in seen) <= 60
    seen.clear()
    found_with(bundle)  # one batch: all threads are its own
    assert [threads for threads, _ in seen] == [4]


@pytest.mark.usefixtures("_threads")
def test_an_error_in_a_thread_is_raised(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_search, "LEAST_TOKENS", 20)
    broken = replace(bundle, model=load_bundle(STORED).model)
    with torch.no_grad():
        broken.model.projection.weight.fill_(torch.nan)
    with pytest.raises(BundleError, match="not finite"):
        found_with(broken, BEAM.model_copy(update={"batch_tokens": 80}))
    assert torch.get_num_threads() == 4


def test_nothing_is_nothing(bundle: Bundle) -> None:
    assert search_all(bundle.model, TokenInputs([]), bundle.specials, BEAM) == []


def test_an_output_has_a_limit(bundle: Bundle) -> None:
    source = TokenInputs(token_ids(bundle.source_tokenizer, LINES[4:5]))
    [[best]] = search_all(bundle.model, source, bundle.specials, BEAM, most=2)
    assert len(best.tokens) + best.finished <= 2


@pytest.mark.slow
def test_the_samples_of_a_source_share_the_budget_of_a_batch(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    search = batched_search.search

    def counted(*arguments: Any) -> list[list[Hypothesis]]:
        sizes.append(arguments[1].numel() * arguments[5])  # padded source tokens of all samples
        return search(*arguments)

    monkeypatch.setattr(batched_search, "search", counted)
    drawn = DecodeConfig(beam=1, sample=True, batch_tokens=160)
    for count in (1, 5):
        sizes.clear()
        found_with(bundle, drawn, n_best=count)
        assert 80 < max(sizes) <= 160
