import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from crosshead.attention.attend import attend
from crosshead.attention.scores import (
    Additive,
    Concat,
    Cosine,
    Dot,
    General,
    Location,
    ProjectedAdditive,
    ScaledDot,
    Score,
)

HEADS, D_QUERY, D_KEY, WIDTH = 3, 5, 4, 6


class Vectors(NamedTuple):
    query: Tensor
    key: Tensor


def vectors(d_query: int, d_key: int, queries: int = 4, keys: int = 7) -> Vectors:
    torch.manual_seed(0)
    return Vectors(
        torch.randn(2, HEADS, queries, d_query, dtype=torch.float64, requires_grad=True),
        torch.randn(2, HEADS, keys, d_key, dtype=torch.float64, requires_grad=True),
    )


def pair_by_pair(drawn: Vectors, score: "Written") -> Tensor:
    """Scores of `score(head, q, k)`, one pair of vectors at a time."""
    query, key = drawn
    rows = [
        [[[score(h, q, k) for k in key[b, h]] for q in query[b, h]] for h in range(HEADS)]
        for b in range(query.shape[0])
    ]
    return torch.stack([
        torch.stack([torch.stack([torch.stack(row) for row in head]) for head in heads])
        for heads in rows
    ])  # fmt: skip


class Written:
    """The equations as the papers have them."""

    def __init__(self, module: nn.Module) -> None:
        self.of = {name: value.detach() for name, value in module.named_parameters()}


class WrittenGeneral(Written):
    def __call__(self, head: int, q: Tensor, k: Tensor) -> Tensor:
        return q @ self.of["weight"][head] @ k


class WrittenAdditive(Written):
    def __call__(self, head: int, q: Tensor, k: Tensor) -> Tensor:
        w_q, w_k = self.of["query_weight"][head].T, self.of["key_weight"][head].T
        return self.of["v"][head] @ torch.tanh(w_q @ q + w_k @ k)


class WrittenConcat(Written):
    def __call__(self, head: int, q: Tensor, k: Tensor) -> Tensor:
        return self.of["v"][head] @ torch.tanh(self.of["weight"][head].T @ torch.cat((q, k)))


class WrittenCosine(Written):
    def __call__(self, head: int, q: Tensor, k: Tensor) -> Tensor:
        return self.of["scale"][head, 0, 0] * q @ k / (q.norm() * k.norm())


LEARNED = {
    "general": (lambda: General(HEADS, D_QUERY, D_KEY), WrittenGeneral, D_KEY),
    "additive": (lambda: Additive(HEADS, D_QUERY, D_KEY, WIDTH), WrittenAdditive, D_KEY),
    "concat": (lambda: Concat(HEADS, D_QUERY, D_KEY, WIDTH), WrittenConcat, D_KEY),
    "cosine": (lambda: Cosine(nn.Parameter(torch.rand(HEADS, 1, 1))), WrittenCosine, D_QUERY),
}


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("queries", [4, 1], ids=["many queries", "one query"])
def test_a_score_is_its_equation_for_every_pair(name: str, queries: int) -> None:
    build, written, d_key = LEARNED[name]
    module = build().double()
    drawn = vectors(D_QUERY, d_key, queries)
    torch.testing.assert_close(module(*drawn), pair_by_pair(drawn, written(module)))


@pytest.mark.parametrize("name", LEARNED)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    build, _, d_key = LEARNED[name]
    module = build().double()
    query, key = vectors(D_QUERY, d_key, queries=2, keys=3)

    def scores(query: Tensor, key: Tensor, *parameters: Tensor) -> Tensor:
        of = dict(zip(dict(module.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(module, of, (query, key))

    assert torch.autograd.gradcheck(scores, (query, key, *module.parameters()))


@pytest.mark.parametrize("name", ["general", "additive", "concat"])
def test_keys_may_be_shared_by_sentences_and_heads(name: str) -> None:
    build, _, d_key = LEARNED[name]
    module = build().double()
    query, key = vectors(D_QUERY, d_key)
    shared = key[:1, :1]
    expected = module(query, shared.expand(2, HEADS, -1, -1))
    torch.testing.assert_close(module(query, shared), expected)


def test_concatenated_and_added_are_the_same() -> None:
    concat, additive = Concat(HEADS, D_QUERY, D_KEY, WIDTH), Additive(HEADS, D_QUERY, D_KEY, WIDTH)
    with torch.no_grad():
        concat.weight.copy_(torch.cat((additive.query_weight, additive.key_weight), dim=1))
        concat.v.copy_(additive.v)
    drawn = vectors(D_QUERY, D_KEY)
    assert torch.equal(concat.double()(*drawn), additive.double()(*drawn))


def test_additive_scores_keep_one_tensor_of_all_pairs_for_backwards() -> None:
    """B H Q K A numbers are inherent; a second copy would not be."""
    module = Additive(1, 8, 8, 32)
    query, key = torch.randn(1, 1, 40, 8), torch.randn(1, 1, 50, 8)
    large: set[int] = set()

    def keep(tensor: Tensor) -> Tensor:
        if tensor.numel() == 40 * 50 * 32:
            large.add(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module(query, key).sum().backward()
    assert len(large) == 1


def squared_tanh(variance: float) -> float:
    """E[tanh(z)^2] of a normal z, by a sum over a fine grid."""
    z = torch.linspace(-10, 10, 20_001, dtype=torch.float64)
    weights = torch.exp(-z.square() / 2)
    return ((variance**0.5 * z).tanh().square() * weights).sum().item() / weights.sum().item()


VARIANCES: dict[str, tuple[Callable[[], Score], float]] = {
    "scaled-dot": (ScaledDot, 1.0),
    "dot": (Dot, 256.0),
    "general": (lambda: General(4, 256, 256), 1.0),
    "location": (lambda: Location(4, 256, 64), 1.0),
    "additive": (lambda: Additive(4, 256, 256, 1024), squared_tanh(1.0)),
    "concat": (lambda: Concat(4, 256, 256, 1024), squared_tanh(1.0)),
    "projected additive": (lambda: ProjectedAdditive(4, 256), squared_tanh(2.0)),
    "cosine": (lambda: Cosine(3.0), 9 / 256),
}


@pytest.mark.parametrize("name", VARIANCES)
def test_random_vectors_are_scored_with_the_variance_that_is_stated(name: str) -> None:
    """Footnote 4 of Vaswani et al. 2017: without the scale it is the width of 256."""
    torch.manual_seed(0)
    build, expected = VARIANCES[name]
    scores = build()(torch.randn(4, 4, 32, 256), torch.randn(4, 4, 32, 256))
    assert 0.85 * expected < scores.var() < 1.15 * expected


def test_what_a_tanh_leaves_of_the_variance() -> None:
    assert round(squared_tanh(1.0), 2) == 0.39
    assert round(squared_tanh(2.0), 2) == 0.52


def test_scores_are_dot_products_over_the_root_of_the_width() -> None:
    query, key = torch.randn(2, 3, 4, 16), torch.randn(2, 3, 5, 16)
    expected = torch.einsum("bhqe,bhke->bhqk", query, key)
    torch.testing.assert_close(ScaledDot()(query, key), expected / math.sqrt(16))
    torch.testing.assert_close(ScaledDot(2.0)(query, key), 2.0 * expected)
    torch.testing.assert_close(Dot()(query, key), expected)


def test_a_cosine_sees_no_lengths() -> None:
    query, key = vectors(4, 4)
    score = Cosine(2.0)
    scores = score(query, key)
    torch.testing.assert_close(score(3 * query, key / 7), scores)
    torch.testing.assert_close(score(query, query).diagonal(dim1=-2, dim2=-1).min().item(), 2.0)
    assert list(score.parameters()) == []


def test_location_looks_at_the_query_and_the_place_alone() -> None:
    module = Location(HEADS, D_QUERY, longest=9).double()
    query, key = vectors(D_QUERY, D_KEY)
    scores = module(query, key)
    torch.testing.assert_close(scores, module(query, torch.zeros_like(key)))
    expected = torch.einsum("bhqe,hek->bhqk", query, module.weight)[..., :7]
    torch.testing.assert_close(scores, expected)


def test_more_keys_than_location_has_places_for_are_refused() -> None:
    query, key = vectors(D_QUERY, D_KEY)
    with pytest.raises(ValueError, match="7 keys are more than the 6 positions"):
        Location(HEADS, D_QUERY, longest=6).double()(query, key)


def test_queries_and_keys_of_different_widths_attend() -> None:
    query, key = vectors(D_QUERY, D_KEY)
    module = General(HEADS, D_QUERY, D_KEY).double()
    expected = module(query, key).softmax(-1) @ key
    torch.testing.assert_close(attend(query, key, key, score=module), expected)


def test_self_attention_without_parameters_is_a_set_operation() -> None:
    """y_i = sum_j softmax_j(x_i . x_j) x_j: what comes in in another order comes out in it."""
    x = torch.randn(1, 1, 6, 3, dtype=torch.float64)
    y = attend(x, x, x, score=Dot())
    for i in range(6):
        weights = torch.stack([x[0, 0, i] @ x[0, 0, j] for j in range(6)]).softmax(0)
        torch.testing.assert_close(y[0, 0, i], weights @ x[0, 0])
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    shuffled = x[:, :, order]
    torch.testing.assert_close(attend(shuffled, shuffled, shuffled, score=Dot()), y[:, :, order])


def test_projecting_keys_beforehand_changes_nothing() -> None:
    whole, compared = Additive(HEADS, D_QUERY, D_KEY, WIDTH), ProjectedAdditive(HEADS, WIDTH)
    compared.v.data.copy_(whole.v.data)
    query, key = torch.randn(2, HEADS, 3, D_QUERY), torch.randn(2, HEADS, 5, D_KEY)
    projected = [
        torch.einsum("bhte,hea->bhta", x, weight)
        for x, weight in ((query, whole.query_weight), (key, whole.key_weight))
    ]
    torch.testing.assert_close(compared(*projected), whole(query, key))
