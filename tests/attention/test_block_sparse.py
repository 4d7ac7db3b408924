"""Attention in blocks is dense attention with the same mask, gradients included."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from crosshead.attention.attend import attend, explicit, sdpa
from crosshead.attention.block_sparse import (
    BlockLayout,
    BlockSparseMask,
    LocalBlocks,
    SummaryColumns,
)
from crosshead.attention.masks import (
    Mask,
    causal,
    dilated,
    documents,
    fixed,
    padding_mask,
    prefix,
    same_block,
    same_column,
    strided,
    summaries,
    window,
)
from crosshead.attention.relative import (
    ALiBi,
    Biased,
    ShawKeys,
    ShawValues,
    T5Buckets,
    TransformerXLScore,
)
from crosshead.attention.scores import (
    Additive,
    Concat,
    Cosine,
    Dot,
    General,
    Location,
    RelativeOffset,
    ScaledDot,
)

PATTERNS: dict[str, Callable[[], Mask]] = {
    "window": lambda: window(3),
    "window of all": lambda: window(100),
    "dilated": lambda: dilated(2, 3),
    "column": lambda: same_column(5),
    "strided": lambda: strided(4),
    "block": lambda: same_block(6),
    "summaries": lambda: summaries(5, 2),
    "fixed": lambda: fixed(5, 2),
    "a window in a window": lambda: window(4) | window(2),
    "three": lambda: dilated(2, 4) | strided(6) | fixed(7, 1),
    "both": lambda: window(4) & dilated(3, 2),
    "small blocks": lambda: Mask(
        lambda b, h, q, k: (q - k <= 7) & (k - q <= 3), [(LocalBlocks(1, 4, 7, 3),)]
    ),
    "small blocks of classes": lambda: Mask(
        lambda b, h, q, k: ((q - k) % 3 == 0) & (q - k <= 3) & (k - q <= 21),
        [(LocalBlocks(3, 2, 1, 7),)],
    ),
}


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype)


def both(
    mask: Mask, batch: int, heads: int, length: int, dtype: torch.dtype, shared: bool = False
) -> list[list[Tensor]]:
    """Outputs and gradients, dense and in blocks; keys `shared` by sentences and heads or not."""
    sizes = {"batch": batch, "heads": heads}
    kinds = [mask.dense(length, length, **sizes), mask.blocked(length, **sizes)]
    results = []
    for kind in kinds:
        query = normal(1, batch, heads, length, 4, dtype=dtype).requires_grad_()
        few = (1, 1) if shared else (batch, heads)
        key = normal(2, *few, length, 4, dtype=dtype).requires_grad_()
        value = normal(3, *few, length, 3, dtype=dtype).requires_grad_()
        output = attend(query, key, value, mask=kind)
        (output * normal(4, *output.shape, dtype=dtype)).sum().backward()
        results.append([output.detach(), query.grad, key.grad, value.grad])
    return results


@settings(max_examples=100)
@given(st.data())
def test_blocks_are_dense_attention(data: st.DataObject) -> None:
    pattern = PATTERNS[data.draw(st.sampled_from(sorted(PATTERNS)))]()
    batch, heads = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    length = data.draw(st.integers(1, 40) | st.integers(60, 90))
    if data.draw(st.booleans()):
        pattern = pattern & causal
    if data.draw(st.booleans()):
        lengths = data.draw(st.lists(st.integers(0, length), min_size=batch, max_size=batch))
        pattern = padding_mask(torch.arange(length) < torch.tensor(lengths)[:, None]) & pattern
    if data.draw(st.booleans()):
        pattern = pattern & Mask(lambda b, h, q, k: (q + k + h + b) % 4 > 0)
    shared = data.draw(st.booleans())
    dense, blocked = both(pattern, batch, heads, length, torch.float64, shared)
    for expected, found in zip(dense, blocked, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_blocks_are_dense_attention_in_float32(name: str) -> None:
    for mask in (PATTERNS[name](), causal & PATTERNS[name]()):
        dense, blocked = both(mask, 2, 3, 131, torch.float32)
        for expected, found in zip(dense, blocked, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_observed_weights_are_the_dense_ones(name: str) -> None:
    valid = torch.arange(23) < torch.tensor([[23], [9]])
    mask = causal & PATTERNS[name]() & padding_mask(valid) & Mask(lambda b, h, q, k: q > 1)
    query, key, value = (normal(n, 2, 2, 23, 4) for n in range(3))
    seen: list[Tensor] = []
    for kind in (mask.dense(23, 23, batch=2), mask.blocked(23, batch=2)):
        attend(query, key, value, mask=kind, observe=seen.append, backend=explicit)
    torch.testing.assert_close(seen[1], seen[0], rtol=1e-12, atol=1e-12)
    assert (seen[1].sum(-1)[:, :, :2] == 0).all()


def distances_of_pairs(queries: int, keys: int, relative: RelativeOffset) -> Tensor:
    last, _ = relative.span(queries, keys)
    query, key = torch.arange(queries)[:, None], torch.arange(keys)
    return relative.step * (last - (queries - 1) + query - key)


def biased(query: Tensor, key: Tensor, relative: RelativeOffset) -> Tensor:
    """A score that falls with distance, and knows its sign."""
    distance = distances_of_pairs(query.shape[2], key.shape[2], relative)
    return ScaledDot()(query, key, relative) - 0.1 * distance - 0.3 * distance.abs()


def weighted_by_distance(weights: Tensor, value: Tensor, relative: RelativeOffset) -> Tensor:
    distance = distances_of_pairs(weights.shape[2], value.shape[2], relative)
    return (weights * distance.cos()) @ value


@pytest.mark.parametrize("name", ["window", "dilated", "column", "strided", "block", "three"])
def test_scores_and_combinations_know_distances_in_blocks(name: str) -> None:
    pattern = (window(3) | dilated(2, 4)) if name == "three" else PATTERNS[name]()
    for mask in (pattern, causal & pattern):
        query, key, value = (normal(n, 2, 2, 29, 4) for n in range(3))
        outputs = [
            attend(query, key, value, mask=kind, score=biased, combine=weighted_by_distance)
            for kind in (mask.dense(29, 29), mask.blocked(29))
        ]
        torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-10, atol=1e-10)


WITHOUT_DISTANCES = {
    "score": biased,
    "combine": weighted_by_distance,
    "shaw's keys": ShawKeys(4, furthest=3).double(),
    "shaw's values": ShawValues(4, furthest=3).double(),
    "t5": Biased(ScaledDot(), T5Buckets(1, causal=True, buckets=8, furthest=20)),
    "alibi": Biased(ScaledDot(), ALiBi(1)),
    "transformer-xl": TransformerXLScore(1, 4, 8).double(),
}


@pytest.mark.parametrize("name", WITHOUT_DISTANCES)
def test_distances_that_do_not_exist_are_refused(name: str) -> None:
    x = normal(0, 1, 1, 12, 4)
    place = "combine" if name in ("combine", "shaw's values") else "score"
    with pytest.raises(ValueError, match="needs distances, but the summary columns"):
        attend(x, x, x, mask=fixed(4, 1).blocked(12), **{place: WITHOUT_DISTANCES[name]})


def test_there_is_no_offset_to_take_for_a_distance_where_there_is_none() -> None:
    relative = summaries(4, 1).blocked(12).parts[0].layout.relative
    assert relative.offset is None
    with pytest.raises(ValueError, match="no regular ones"):
        relative.span(12, 3)


def test_a_score_can_tell_that_it_sees_a_block() -> None:
    seen: list[bool] = []

    def score(query: Tensor, key: Tensor, relative: RelativeOffset) -> Tensor:
        seen.append(relative.all_keys)
        return query @ key.mT

    x = normal(0, 1, 1, 12, 4)
    attend(x, x, x, score=score)
    attend(x, x, x, mask=fixed(4, 1).blocked(12), score=score)
    assert seen == [True, False, False]


def test_no_pair_of_a_union_counts_twice() -> None:
    mask = (strided(4) | fixed(5, 2)).blocked(33)
    counted = mask.to_dense([
        (part.additive == 0).double().flatten(0, 1) for part in mask.parts
    ])  # fmt: skip
    assert torch.equal(counted.bool(), (strided(4) | fixed(5, 2)).dense(33, 33))
    assert counted.max() == 1


def test_dropout_drops_weights_of_all_parts() -> None:
    """Values are ones: the output is the sum of the weights that are left."""
    query, key = normal(1, 4, 4, 90, 2), normal(2, 4, 4, 90, 2)
    value = torch.ones(4, 4, 90, 1, dtype=torch.float64)
    torch.manual_seed(0)
    output = attend(query, key, value, mask=strided(9).blocked(90), dropout=0.25)
    assert output.std() > 0.1
    assert abs(output.mean() - 1) < 0.02


def test_causal_windows_score_half_of_what_windows_do() -> None:
    [whole], [half] = (m.blocked(64).parts for m in (window(8), causal & window(8)))
    assert whole.additive.shape[-1] - half.additive.shape[-1] == 8


def test_blocks_of_a_window_grow_with_the_length_alone() -> None:
    """Twice the length, twice the numbers; never as many as pairs."""
    sizes = [window(16).blocked(length).parts[0].additive.numel() for length in (512, 1024, 2048)]
    assert sizes[1] == 2 * sizes[0] and sizes[2] == 4 * sizes[0]


def test_what_blocks_do_not_fit_is_refused() -> None:
    mask = window(2).blocked(9)
    x, y = normal(1, 1, 1, 9, 2), normal(2, 1, 1, 7, 2)
    with pytest.raises(ValueError, match="for 9 positions that attend to themselves, found 7 q"):
        attend(y, x, x, mask=mask)
    with pytest.raises(ValueError, match="found 9 queries at offset 2 and 9 keys"):
        attend(x, x, x, mask=mask, offset=2)
    with pytest.raises(ValueError, match="give backend=explicit"):
        attend(x, x, x, mask=mask, backend=sdpa)


def test_masks_without_limits_have_no_blocks() -> None:
    ids = torch.zeros(1, 9, dtype=torch.long)
    for mask in (causal, prefix(3), documents(ids), ~window(2), causal | window(2)):
        with pytest.raises(ValueError, match="may allow any pair and has no blocks"):
            mask.blocked(9)


def scored(mask: Mask, length: int) -> int:
    """The number of keys that a query is scored against in blocks."""
    return sum(part.additive.shape[-1] for part in mask.blocked(length).parts)


def test_both_of_two_patterns_are_computed_in_the_blocks_of_the_smaller() -> None:
    """Whichever comes first; and distances exist where the smaller has them."""
    x = normal(0, 1, 2, 128, 4)
    alibi = Biased(ScaledDot(), ALiBi(2))
    near, far = window(8), fixed(64, 4)
    for mask in (near & far, far & near):
        assert scored(mask, 128) == scored(near, 128) < scored(far, 128)
        found = attend(x, x, x, mask=mask.blocked(128), score=alibi)
        expected = attend(x, x, x, mask=mask.dense(128, 128), score=alibi)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    for mask in (strided(64) & near, near & strided(64)):
        assert scored(mask, 512) == scored(near, 512)


def test_which_pattern_is_the_smaller_is_told_by_the_length() -> None:
    """Every 8th position of a short sequence is few, and of a long one more than are near."""
    near, columns = window(8), same_column(8)
    for mask in (near & columns, columns & near):
        assert scored(mask, 128) == scored(columns, 128) == 16
        assert scored(mask, 4096) == scored(near, 4096) == 48


def test_either_of_two_pairs_of_patterns_is_within_reach_of_one_of_each() -> None:
    mask = (window(3) & dilated(2, 3)) | (fixed(5, 2) & window(6))
    assert torch.equal(
        mask.blocked(40).to_dense([
            (part.additive == 0).double().flatten(0, 1) for part in mask.blocked(40).parts
        ])[0, 0].bool(),
        mask.dense(40, 40)[0, 0],
    )  # fmt: skip


def test_blocks_are_chosen_where_they_are_less_work() -> None:
    mask = causal & window(8)
    assert isinstance(mask.evaluate(512, 512), BlockSparseMask)
    assert scored(window(8), 96) == 32 + 2 * 8
    assert scored(mask, 96) == 32 + 8  # no later key is scored where all are masked
    assert isinstance(mask.evaluate(96, 96), BlockSparseMask)
    assert isinstance(mask.evaluate(95, 95), Tensor)
    assert isinstance(mask.evaluate(512, 1024), Tensor)
    assert isinstance(mask.evaluate(1, 512, offset=511), Tensor)
    assert isinstance(causal.evaluate(512, 512), Tensor)


class Largest(TorchDispatchMode):
    """The numbers of the largest tensor that anything gave, backwards too."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        for each in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(each, Tensor):
                self.numbers = max(self.numbers, each.numel())
        return found


@pytest.mark.parametrize("mask", [window(8), dilated(8, 3), strided(32), fixed(32, 1)])
def test_nothing_is_as_large_as_all_pairs(mask: Mask) -> None:
    """Neither the mask nor a score, forwards or backwards, of any of the heads."""
    x = [normal(n, 1, 2, 1024, 4).requires_grad_() for n in range(3)]
    with Largest() as largest:
        attend(*x, mask=(causal & mask).blocked(1024)).sum().backward()
    assert largest.numbers < 1024 * 1024 / 4


POSITIONS: dict[str, Callable[[], Any]] = {
    "shaw": lambda: ShawKeys(4, furthest=3),
    "t5": lambda: Biased(ScaledDot(), T5Buckets(2, causal=True, buckets=8, furthest=20)),
    "alibi": lambda: Biased(ScaledDot(), ALiBi(2)),
    "transformer-xl": lambda: TransformerXLScore(2, 4, 8),
    "additive": lambda: Additive(2, 4, 4, 5),
    "concat": lambda: Concat(2, 4, 4, 5),
    "general": lambda: General(2, 4, 4),
    "cosine": lambda: Cosine(nn.Parameter(torch.rand(2, 1, 1))),
}


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("pattern", ["window", "strided", "small blocks of classes"])
def test_scores_with_parameters_learn_the_same_in_blocks(name: str, pattern: str) -> None:
    torch.manual_seed(0)
    score, combine = POSITIONS[name]().double(), ShawValues(4, furthest=3).double()
    mask = causal & PATTERNS[pattern]()
    results = []
    for kind in (mask.dense(45, 45), mask.blocked(45)):
        leaves = [normal(n, 2, 2, 45, 4).requires_grad_() for n in range(3)]
        learned = [p for each in (score, combine) for p in each.parameters()]
        output = attend(*leaves, mask=kind, score=score, combine=combine)
        weighted = (output * normal(4, *output.shape)).sum()
        results.append([output.detach(), *torch.autograd.grad(weighted, leaves + learned)])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


SUMMARISED = {
    "dot": Dot(),
    "general": General(2, 4, 4).double(),
    "additive": Additive(2, 4, 4, 5).double(),
    "concat": Concat(2, 4, 4, 5).double(),
    "cosine": Cosine(3.0),
}


@pytest.mark.parametrize("name", SUMMARISED)
def test_scores_that_know_no_distances_are_computed_in_summaries_too(name: str) -> None:
    results = []
    mask = causal & fixed(8, 2)
    for kind in (mask.dense(45, 45), mask.blocked(45)):
        leaves = [normal(n, 2, 2, 45, 4).requires_grad_() for n in range(3)]
        output = attend(*leaves, mask=kind, score=SUMMARISED[name])
        weighted = (output * normal(4, *output.shape)).sum()
        results.append([output.detach(), *torch.autograd.grad(weighted, leaves)])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_scores_by_place_are_refused_in_blocks() -> None:
    x = normal(0, 1, 1, 12, 4)
    with pytest.raises(
        ValueError, match="needs the positions of all keys, and found the keys of a block"
    ):
        attend(x, x, x, mask=window(1).blocked(12), score=Location(1, 4, 20).double())


@pytest.mark.parametrize("layout", [LocalBlocks(1, 4, 7, 3), SummaryColumns(5, 2)])
def test_positions_are_on_the_device_that_is_asked_for(layout: BlockLayout) -> None:
    meta = torch.device("meta")
    assert [each.device for each in layout.positions(12, meta)] == [meta, meta]


@pytest.mark.parametrize("length", [1, 9, 100, 131])
def test_predicates_are_asked_of_positions_that_exist(length: int) -> None:
    """Blocks reach beyond both ends of the sequence; a predicate that reads a table cannot."""
    asked: list[Tensor] = []

    def recorded(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        asked.extend((q, k))
        return (q - k).abs() <= 3

    (
        Mask(recorded, window(3).covers) & documents(torch.zeros(2, length, dtype=torch.long))
    ).blocked(length)
    assert asked
    assert all(each.min() >= 0 and each.max() < length for each in asked)
