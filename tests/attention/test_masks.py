import inspect
import re
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crosshead.attention.attend import Backend, attend, explicit, sdpa
from crosshead.attention.masks import (
    Mask,
    allowed,
    causal,
    dilated,
    documents,
    fixed,
    global_tokens,
    padding_mask,
    prefix,
    same_block,
    same_column,
    strided,
    summaries,
    window,
)

SIZES = {"queries": 4, "keys": 5, "batch": 3, "heads": 2}


@st.composite
def masks(draw: st.DrawFn) -> Callable[[], Mask]:
    """What makes a random predicate of one of the kinds that models use.

    The test makes it: types are checked by random samples, which strategies must not draw.
    """
    kind = draw(st.sampled_from(["causal", "padding", "window", "head", "anything"]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    reach = draw(st.integers(0, 4))
    table = torch.rand(3, 2, 4, 5, generator=generator) < 0.5
    made: dict[str, Callable[[], Mask]] = {
        "causal": lambda: causal,
        "padding": lambda: padding_mask(table[:, 0, 0]),
        "window": lambda: window(reach),
        "head": lambda: Mask(lambda b, h, q, k: h == reach % 2),
        "anything": lambda: Mask(lambda b, h, q, k: table[b, h, q, k]),
    }
    return made[kind]


def whole(mask: Mask) -> torch.Tensor:
    return mask.dense(**SIZES).expand(3, 2, 4, 5)


@settings(max_examples=40)
@given(masks(), masks(), masks())
def test_combinations_obey_the_laws_of_logic(
    first: Callable[[], Mask], second: Callable[[], Mask], third: Callable[[], Mask]
) -> None:
    a, b, c = first(), second(), third()
    assert torch.equal(whole(a & b), whole(a) & whole(b))
    assert torch.equal(whole(a | b), whole(a) | whole(b))
    assert torch.equal(whole(~a), ~whole(a))
    assert torch.equal(whole(~(a & b)), whole(~a | ~b))
    assert torch.equal(whole(a & (b | c)), whole((a & b) | (a & c)))


def test_causal_is_the_lower_triangle() -> None:
    assert torch.equal(causal.dense(6, 6)[0, 0], torch.ones(6, 6, dtype=torch.bool).tril())


def test_offset_gives_the_rows_of_later_queries() -> None:
    every = causal.dense(7, 7)
    for offset in range(7):
        rows = causal.dense(7 - offset, 7, offset=offset)
        assert torch.equal(rows, every[:, :, offset:])


def test_present_keeps_padding_out_sentence_by_sentence() -> None:
    valid = torch.tensor([[True, True, False], [True, False, False]])
    mask = padding_mask(valid).dense(2, 3, batch=2)
    assert torch.equal(mask.expand(2, 1, 2, 3)[:, 0, 1], valid)


def test_dense_stays_as_small_as_what_the_predicate_looks_at() -> None:
    valid = torch.ones(3, 5, dtype=torch.bool)
    assert causal.dense(**SIZES).shape == (1, 1, 4, 5)
    assert padding_mask(valid).dense(**SIZES).shape == (3, 1, 1, 5)
    assert (causal & padding_mask(valid)).dense(**SIZES).shape == (3, 1, 4, 5)
    assert (~causal).dense(**SIZES).shape == (1, 1, 4, 5)
    assert Mask(lambda b, h, q, k: h == 0).dense(**SIZES).shape == (1, 2, 1, 1)


def test_a_mask_is_evaluated_on_the_device_that_is_asked_for() -> None:
    assert causal.dense(2, 3, device=torch.device("meta")).device.type == "meta"


IDS = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]])
BY_SENTENCE = {
    "documents": lambda: documents(IDS),
    "padding": lambda: padding_mask(IDS == 0),
    "prefix": lambda: prefix(torch.tensor([1, 2, 3])),
}


@pytest.mark.parametrize("name", BY_SENTENCE)
def test_a_mask_of_sentences_knows_how_many(name: str) -> None:
    """Nobody gets the first sentence's mask for another's."""
    mask = BY_SENTENCE[name]()
    masks = (mask, causal & mask, mask | causal, ~mask, mask & window(1), window(1) & mask)
    for each in masks:
        assert torch.equal(each.dense(4, 4), each.dense(4, 4, batch=3))
        assert each.dense(4, 4).shape[0] == 3
        for batch in (1, 2, 4):
            with pytest.raises(
                ValueError, match=f"mask is made for 3 sentences and used with {batch};"
            ):
                each.dense(4, 4, batch=batch)
            with pytest.raises(
                ValueError, match=f"mask is made for 3 sentences and used with {batch}"
            ):
                each.evaluate(4, 4, batch=batch)
    for each in masks[4:]:
        reachable = each.dense(4, 4).any(-1, keepdim=True)
        assert torch.equal(each.blocked(4).reachable, reachable)
        with pytest.raises(ValueError, match="mask is made for 3 sentences and used with 1"):
            each.blocked(4, batch=1)
    for combined in (
        lambda: mask & padding_mask(IDS[:2] == 0),
        lambda: mask | padding_mask(IDS[:2] == 0),
    ):
        with pytest.raises(ValueError, match="mask is made for 3 sentences and used with 2"):
            combined()


def test_a_mask_that_is_told_its_heads_has_all_of_them() -> None:
    table = torch.tensor([[1, 0, 0], [0, 1, 1]], dtype=torch.bool)
    mask = causal & Mask(lambda b, h, q, k: table[h, k], heads=2)
    assert torch.equal(mask.dense(1, 3, offset=2)[0, :, 0], table)
    with pytest.raises(ValueError, match="mask is made for 2 heads and used with 4"):
        mask.dense(3, 3, heads=4)


def test_no_sentences_are_no_sentences() -> None:
    assert padding_mask(torch.ones(0, 5, dtype=torch.bool)).dense(1, 5).shape == (0, 1, 1, 5)


def test_a_predicate_can_be_asked_about_single_pairs() -> None:
    zero, two, three = torch.tensor(0), torch.tensor(2), torch.tensor(3)
    assert bool(causal(zero, zero, three, two))
    assert not bool(causal(zero, zero, two, three))


LENGTH = 6
TABLE = torch.rand(LENGTH, LENGTH, generator=torch.Generator().manual_seed(3)) < 0.4
STORIES = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 1, 1, 2, 2, 3]])

WRITTEN: dict[str, tuple[Callable[[], Mask], Callable[[int, int, int], bool]]] = {
    "prefix": (lambda: causal | prefix(3), lambda b, q, k: k <= q or k < 3),
    "prefix of each": (
        lambda: causal | prefix(torch.tensor([2, 4])),
        lambda b, q, k: k <= q or k < (2, 4)[b],
    ),
    "documents": (
        lambda: causal & documents(STORIES),
        lambda b, q, k: k <= q and STORIES[b].tolist()[q] == STORIES[b].tolist()[k],
    ),
    "global": (
        lambda: window(1) | global_tokens([0, 4]),
        lambda b, q, k: abs(q - k) <= 1 or q in (0, 4) or k in (0, 4),
    ),
    "any matrix": (lambda: allowed(TABLE), lambda b, q, k: bool(TABLE[q, k])),
}
"""A mask, and what its name says of a sentence, a query and a key."""


@pytest.mark.parametrize("backend", [explicit, sdpa])
@pytest.mark.parametrize("name", WRITTEN)
def test_attention_under_a_mask_is_a_softmax_over_the_keys_that_it_allows(
    name: str, backend: Backend
) -> None:
    build, may = WRITTEN[name]
    generator = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(2, 2, LENGTH, 3, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    found = attend(query, key, value, mask=build().dense(LENGTH, LENGTH), backend=backend)
    for b in range(2):
        for q in range(LENGTH):
            keys = [k for k in range(LENGTH) if may(b, q, k)]
            for h in range(2):
                expected = torch.zeros(3, dtype=torch.float64)
                weights = [(query[b, h, q] @ key[b, h, k] / 3**0.5).exp() for k in keys]
                for weight, k in zip(weights, keys, strict=True):
                    expected += weight / sum(weights) * value[b, h, k]
                torch.testing.assert_close(found[b, h, q], expected, rtol=1e-12, atol=1e-12)


TWO_AXES = torch.zeros(2, 2, dtype=torch.bool)
ONE_AXIS = TWO_AXES[0]

IMPOSSIBLE: dict[str, tuple[Callable[..., Mask], tuple[object, ...], str]] = {
    "window": (window, (-1,), "radius: expected 0 or more, found -1"),
    "radius": (dilated, (-3, 2), "radius: expected 0 or more, found -3"),
    "dilation": (dilated, (2, 0), "dilation: expected 1 or more, found 0"),
    "strided": (strided, (-2,), "stride: expected 1 or more, found -2"),
    "no stride": (strided, (0,), "stride: expected 1 or more, found 0"),
    "same column": (same_column, (0,), "stride: expected 1 or more, found 0"),
    "same block": (same_block, (0,), "length: expected 1 or more, found 0"),
    "fixed": (fixed, (2, 5), "columns: expected 1 to 2, found 5"),
    "no block": (summaries, (0, 1), "length: expected 1 or more, found 0"),
    "no columns": (summaries, (2, 0), "columns: expected 1 to 2, found 0"),
    "prefix": (prefix, (-1,), "length: expected 0 or more, found -1"),
    "prefixes": (prefix, (TWO_AXES.int(),), "length: expected a tensor B, found one of 2 x 2"),
    "global": (global_tokens, ([3, -1],), "positions: expected 0 or more, found -1"),
    "documents": (documents, (ONE_AXIS.int(),), "ids: expected a tensor B T, found one of 2"),
    "padding": (padding_mask, (ONE_AXIS,), "valid: expected a tensor B K, found one of 2"),
    "any": (allowed, (ONE_AXIS,), "table: expected a tensor Q K, found one of 2"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_mask_that_cannot_be_is_refused_where_it_is_made(name: str) -> None:
    make, arguments, message = IMPOSSIBLE[name]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        inspect.unwrap(make)(*arguments)  # as where no test checks shapes


def test_masks_at_their_bounds() -> None:
    assert torch.equal(window(0).dense(3, 3)[0, 0], torch.eye(3, dtype=torch.bool))
    assert fixed(2, 2).dense(4, 4).all() and strided(1).dense(4, 4).all()
    for empty in (prefix(0), global_tokens([])):
        assert not empty.dense(3, 3).any()


def test_queries_behind_the_first_key_are_evaluated_where_they_stand() -> None:
    """As in decoding: the last queries of a sequence see what they see in the whole of it."""
    for mask in (causal, window(2), causal & strided(3), fixed(4, 1)):
        whole = mask.dense(12, 12)
        found = mask.evaluate(3, 12, offset=9)
        assert torch.equal(found, whole[:, :, 9:])
        assert not torch.equal(found, whole[:, :, :3])
