from collections.abc import Callable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crosshead.attention.masks import Mask, causal, present, window

SIZES = {"queries": 4, "keys": 5, "batch": 3, "heads": 2}


@st.composite
def masks(draw: st.DrawFn) -> Callable[[], Mask]:
    """What makes a random predicate of one of the kinds that models use.

    The test makes it: types are checked by random samples, which strategies must not draw.
    """
    kind = draw(st.sampled_from(["causal", "present", "window", "head", "anything"]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    reach = draw(st.integers(0, 4))
    table = torch.rand(3, 2, 4, 5, generator=generator) < 0.5
    made: dict[str, Callable[[], Mask]] = {
        "causal": lambda: causal,
        "present": lambda: present(table[:, 0, 0]),
        "window": lambda: window(reach),
        "head": lambda: Mask(lambda b, h, q, k: h == reach % 2),
        "anything": lambda: Mask(lambda b, h, q, k: table[b, h, q, k]),
    }
    return made[kind]


def whole(mask: Mask) -> torch.Tensor:
    return mask.dense(**SIZES).expand(3, 2, 4, 5)


@settings(max_examples=40, deadline=None)
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
    mask = present(valid).dense(2, 3, batch=2)
    assert torch.equal(mask.expand(2, 1, 2, 3)[:, 0, 1], valid)


def test_dense_stays_as_small_as_what_the_predicate_looks_at() -> None:
    valid = torch.ones(3, 5, dtype=torch.bool)
    assert causal.dense(**SIZES).shape == (1, 1, 4, 5)
    assert present(valid).dense(**SIZES).shape == (3, 1, 1, 5)
    assert (causal & present(valid)).dense(**SIZES).shape == (3, 1, 4, 5)
    assert (~causal).dense(**SIZES).shape == (1, 1, 4, 5)
    assert Mask(lambda b, h, q, k: h == 0).dense(**SIZES).shape == (1, 2, 1, 1)


def test_a_predicate_can_be_asked_about_single_pairs() -> None:
    zero, two, three = torch.tensor(0), torch.tensor(2), torch.tensor(3)
    assert bool(causal(zero, zero, three, two))
    assert not bool(causal(zero, zero, two, three))
