from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crosshead.attention.kv_cache import (
    DecodingCache,
    KeyValues,
    KVCache,
    NoCache,
    Positions,
    SegmentMemory,
)
from tests.attention.cache_memory import held_bytes


def random_pair(rows: int, length: int, generator: torch.Generator) -> KeyValues:
    """Keys and values of different widths, laid out as a projection gives them."""
    return KeyValues(
        torch.randn(rows, length, 2, 3, generator=generator).transpose(1, 2),
        torch.randn(rows, length, 2, 4, generator=generator).transpose(1, 2),
    )


class Projected:
    """A projection that a function computes; its heads are those of the last result."""

    def __init__(self, project: Callable[..., KeyValues]) -> None:
        self.of = project

    def project(self, memory: Tensor, start: Positions = 0) -> KeyValues:
        self.last = self.of(memory, start)
        return self.last

    def packed(self, memory: Tensor, start: Positions) -> Tensor:
        return torch.cat([x.transpose(1, 2).flatten(2) for x in self.project(memory, start)], 2)

    def unpacked(self, packed: Tensor) -> KeyValues:
        heads, widths = self.last.keys.shape[1], [x.shape[1] * x.shape[3] for x in self.last]
        parts = packed.split(widths, dim=2)
        return KeyValues(*(x.unflatten(2, (heads, -1)).transpose(1, 2) for x in parts))


def extend(cache: KVCache, pair: KeyValues) -> KeyValues:
    """Return what a cache holds after positions that are projected to this pair."""
    x = torch.empty(pair.keys.shape[0], pair.keys.shape[2], 1)
    y, held = cache.extend(x, lambda x: x, Projected(lambda x, start: pair))
    assert y is x
    return held


def check(held: KeyValues, keys: Tensor, values: Tensor) -> None:
    assert torch.equal(held.keys, keys)
    assert torch.equal(held.values, values)


Selection = list[int]


@settings(max_examples=50)
@given(
    st.integers(0, 2**31),
    st.lists(
        st.tuples(st.integers(1, 40), st.lists(st.integers(0, 10**6), max_size=5)),
        min_size=1,
        max_size=7,
    ),
)
def test_extending_and_selecting_equal_concatenating_and_indexing(
    seed: int, moves: list[tuple[int, Selection]]
) -> None:
    """A list of moves: extend by so many positions, then (where rows are named) select them."""
    generator = torch.Generator().manual_seed(seed)
    cache, rows = DecodingCache(), 2
    keys, values = torch.zeros(rows, 2, 0, 3), torch.zeros(rows, 2, 0, 4)
    for length, selection in moves:
        new = random_pair(rows, length, generator)
        keys, values = torch.cat((keys, new.keys), 2), torch.cat((values, new.values), 2)
        check(extend(cache, new), keys, values)
        assert cache.length == keys.shape[2]
        if selection:
            chosen = torch.tensor(selection) % rows
            cache, keys, values = cache.select(chosen), keys[chosen], values[chosen]
            rows = len(chosen)
            assert cache.length == keys.shape[2]


@pytest.mark.parametrize("reach", [1, 3, 20])
def test_what_is_beyond_reach_is_dropped(reach: int) -> None:
    """The new ones see `reach` positions before the first of them, and room is made for no more."""
    generator = torch.Generator().manual_seed(0)
    cache, keys, values = DecodingCache(reach), torch.zeros(2, 2, 0, 3), torch.zeros(2, 2, 0, 4)
    position = 2 * 2 * (3 + 4) * keys.element_size()
    for length in (2, 1, 50, *[1] * 60, 7, 1, 1):
        before, new = keys.shape[2], random_pair(2, length, generator)
        keys, values = torch.cat((keys, new.keys), 2), torch.cat((values, new.values), 2)
        assert cache.visible == min(before, reach)
        begin = before - cache.visible
        check(extend(cache, new), keys[:, :, begin:], values[:, :, begin:])
        assert cache.length == keys.shape[2]
        assert 0 < held_bytes(cache) <= position * max(2 * reach, reach + 50, 16)
        cache = cache.select(torch.tensor([0, 1]))
    assert held_bytes(cache) <= position * max(2 * reach, 16)


def test_a_selection_goes_its_own_way() -> None:
    """What is written to one of two continuations is not seen by the other."""
    generator = torch.Generator().manual_seed(0)
    first = random_pair(2, 3, generator)
    cache = DecodingCache()
    extend(cache, first)
    other = cache.select(torch.tensor([0, 1]))
    here, there = random_pair(2, 1, generator), random_pair(2, 1, generator)
    extend(cache, here)
    held = extend(other, there)
    again = extend(cache, random_pair(2, 1, generator))
    assert torch.equal(held.keys, torch.cat((first.keys, there.keys), 2))
    assert torch.equal(again.keys[:, :, :4], torch.cat((first.keys, here.keys), 2))


def test_selecting_from_an_empty_cache() -> None:
    cache = DecodingCache().select(torch.tensor([1, 0, 1]))
    new = random_pair(3, 2, torch.Generator().manual_seed(0))
    check(extend(cache, new), new.keys, new.values)


def test_no_past_remembers_nothing() -> None:
    cache, generator = NoCache(), torch.Generator().manual_seed(0)
    for _ in range(2):
        new = random_pair(2, 3, generator)
        assert extend(cache, new) is new


def test_a_cache_says_where_new_positions_stand() -> None:
    """The projection is told the position of the first: keys may be turned by it."""
    starts: list[int] = []

    def project(x: Tensor, start: int) -> KeyValues:
        starts.append(start)
        return random_pair(2, x.shape[1], torch.Generator().manual_seed(0))

    cache = DecodingCache()
    for length in (3, 1, 2):
        cache.extend(torch.empty(2, length, 1), torch.Tensor.clone, Projected(project))
    NoCache().extend(torch.empty(2, 4, 1), torch.Tensor.clone, Projected(project))
    assert starts == [0, 3, 4, 0]


def test_the_last_of_a_cache_goes_its_own_way() -> None:
    generator = torch.Generator().manual_seed(0)
    cache, first = DecodingCache(), random_pair(2, 7, generator)
    assert cache.last(3).length == 0
    extend(cache, first)
    for positions, left in ((0, 0), (3, 3), (100, 7)):
        last, new = cache.last(positions), random_pair(2, 2, generator)
        assert last.length == left
        held = extend(last, new)
        check(
            held,
            torch.cat((first.keys[:, :, 7 - left :], new.keys), 2),
            torch.cat((first.values[:, :, 7 - left :], new.values), 2),
        )
    new = random_pair(2, 1, generator)
    held = extend(cache, new)
    check(held, torch.cat((first.keys, new.keys), 2), torch.cat((first.values, new.values), 2))


def seen_by(memory: SegmentMemory, x: Tensor) -> Tensor:
    """The vectors of which an extended memory makes keys and values."""
    shown: list[tuple[Tensor, int]] = []

    def project(vectors: Tensor, start: int) -> KeyValues:
        shown.append((vectors, start))
        return random_pair(2, vectors.shape[1], torch.Generator().manual_seed(0))

    memory.extend(x, torch.Tensor.clone, Projected(project))
    [(vectors, start)] = shown
    assert start == 0
    return vectors


def test_a_memory_keeps_the_last_vectors() -> None:
    text = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0))
    memory, end = SegmentMemory(), 0
    for length, positions in ((4, 6), (4, 6), (1, 2), (5, 0), (3, 9), (3, 9)):
        before = text[:, end - memory.length : end]
        end += length
        new = text[:, end - length : end]
        for _ in range(2):  # a layer may be computed twice
            assert torch.equal(seen_by(memory, new), torch.cat((before, new), 1))
        held = memory.length + length
        memory = memory.last(positions)
        assert memory.length == min(positions, held)
    assert SegmentMemory().last(4).length == 0


@pytest.mark.parametrize("cache", [NoCache(), DecodingCache(), SegmentMemory()])
def test_what_is_projected_was_normalised(cache: KVCache) -> None:
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))

    def project(y: Tensor, start: int) -> KeyValues:
        return KeyValues(y[:, None], -y[:, None])

    y, held = cache.extend(x, torch.tanh, Projected(project))
    assert torch.equal(y, x.tanh())
    check(held, x.tanh()[:, None], -x.tanh()[:, None])


def test_a_memory_is_normalised_anew() -> None:
    """By the norm as it is then: it learns from what is remembered."""
    first, second = torch.randn(2, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    gain, memory = torch.ones(4, requires_grad=True), SegmentMemory()
    both = Projected(lambda y, start: KeyValues(y[:, None], y[:, None]))
    memory.extend(first, lambda x: x * 5, both)
    _, held = memory.last(2).extend(second, lambda x: x * gain, both)
    held.keys.sum().backward()
    torch.testing.assert_close(gain.grad, torch.cat((first[:, 1:], second), 1).sum((0, 1)))


def test_no_gradient_reaches_what_is_remembered() -> None:
    first, second = (torch.randn(2, 3, 4, requires_grad=True) for _ in range(2))
    memory = SegmentMemory()
    seen_by(memory, first)
    seen_by(memory.last(2), second).sum().backward()
    assert first.grad is None
    assert (second.grad == 1).all()


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("lengths", [(5, 2), (2, 20), (4, 4), (18, 1)])
def test_joined_rows_end_together_behind_zeros(
    lengths: tuple[int, int], window: int | None
) -> None:
    generator = torch.Generator().manual_seed(0)
    caches = [DecodingCache(window) for _ in lengths]
    pairs = [random_pair(2, length, generator) for length in lengths]
    for cache, pair in zip(caches, pairs, strict=True):
        extend(cache, pair)
    joined = caches[0].join(caches[1])
    longest = max(lengths) if window is None else min(window, max(lengths))
    new = random_pair(4, 1, generator)
    assert joined.visible == longest
    missing = torch.tensor([max(lengths) - length for length in lengths for _ in range(2)])
    if len(set(lengths)) > 1:
        assert torch.equal(torch.as_tensor(joined.length), max(lengths) - missing)
        assert joined.padding is not None
        padding = joined.padding.tolist()
    else:
        assert joined.length == lengths[0] and joined.padding is None
        padding = [0] * 4
    held = extend(joined, new)
    for row in range(4):
        keys = torch.cat((pairs[row // 2].keys[row % 2], new.keys[row]), dim=1)[:, -longest - 1 :]
        assert padding[row] == longest + 1 - keys.shape[1]
        assert not held.keys[row, :, : padding[row]].any()
        assert torch.equal(held.keys[row, :, padding[row] :], keys)


def test_slots_that_no_row_uses_are_dropped_when_rows_join() -> None:
    generator = torch.Generator().manual_seed(0)
    caches = [DecodingCache() for _ in range(3)]
    for cache, length in zip(caches, (20, 3, 1), strict=True):
        extend(cache, random_pair(1, length, generator))
    short = caches[0].join(caches[1]).select(torch.tensor([1]))
    assert (short.visible, short.join(caches[2]).visible) == (20, 3)


def test_an_empty_cache_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match="decode a token first"):
        DecodingCache().join(DecodingCache())
