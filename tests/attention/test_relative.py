import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from crosshead.attention.attend import attend, weighted_sum
from crosshead.attention.masks import causal
from crosshead.attention.positions import sinusoidal
from crosshead.attention.relative import (
    ALiBi,
    Biased,
    ShawKeys,
    ShawValues,
    T5Buckets,
    TransformerXLScore,
    alibi_slopes,
    along_diagonals,
    distances,
    onto_distances,
    t5_bucket,
)
from crosshead.attention.scores import Dot, RelativeOffset, ScaledDot

HEADS, WIDTH, D_MODEL = 3, 4, 6
SIZES = [(5, 5), (1, 7), (3, 7), (7, 3), (1, 1), (4, 1)]
OFFSETS = [
    RelativeOffset(),
    RelativeOffset(4),
    RelativeOffset(-2, 3),
    RelativeOffset(30),
    RelativeOffset(-30, 2),
]


def drawn(*shape: int) -> Tensor:
    return torch.randn(2, HEADS, *shape, dtype=torch.float64, requires_grad=True)


def distance(i: int, j: int, relative: RelativeOffset) -> int:
    """How far query i comes after key j, as `RelativeOffset` says it."""
    return relative.step * (i + relative.offset - j)


def randomised(module: nn.Module) -> nn.Module:
    """In float64, with nothing at zero."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.double()


@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("relative", OFFSETS)
def test_every_pair_finds_its_distance(queries: int, keys: int, relative: RelativeOffset) -> None:
    by_distance = distances(queries, keys, relative).double().expand(1, 1, queries, -1)
    found = along_diagonals(by_distance)[0, 0]
    expected = [[distance(i, j, relative) for j in range(keys)] for i in range(queries)]
    assert found.tolist() == expected
    assert by_distance.shape[-1] == queries + keys


@pytest.mark.parametrize(("queries", "keys"), SIZES)
def test_along_diagonals_is_a_view_and_its_inverse_is_its_gradient(queries: int, keys: int) -> None:
    by_distance = torch.randn(2, HEADS, queries, queries + keys, requires_grad=True)
    by_key = along_diagonals(by_distance)
    before = by_key.detach().clone()
    with torch.no_grad():
        by_distance.mul_(2)
    assert torch.equal(by_key, 2 * before)
    weighting = torch.randn_like(by_key)
    (gradient,) = torch.autograd.grad((by_key * weighting).sum(), by_distance)
    assert torch.equal(onto_distances(weighting), gradient)
    assert torch.equal(along_diagonals(onto_distances(weighting)), weighting)


# Each kind beside its equation, written out pair by pair


class Kind:
    """A score or a combination and, for each pair, what the paper adds up."""

    def __init__(self, build: Callable[[], nn.Module], score: Callable[..., Tensor]) -> None:
        self.build, self.score = build, score


def shaw(module: nn.Module, h: int, q: Tensor, k: Tensor, d: int) -> Tensor:
    """Eq. 4 and a_ij = w_clip(j - i, k), for x_i W^Q = q, x_j W^K = k, j - i = -d."""
    return q @ (k + module.vectors.table[min(max(-d, -2), 2) + 2]) / math.sqrt(WIDTH)


def t5(causal: bool) -> Callable[..., Tensor]:
    def score(module: nn.Module, h: int, q: Tensor, k: Tensor, d: int) -> Tensor:
        bucket = T5Attention._relative_position_bucket(torch.tensor(-d), not causal, 8, 20)
        return q @ k + module.bias.table[h, bucket]

    return score


def alibi(module: nn.Module, h: int, q: Tensor, k: Tensor, d: int) -> Tensor:
    return q @ k / math.sqrt(WIDTH) - [1 / 16, 1 / 256, 1 / 4][h] * abs(d)


def transformer_xl(module: nn.Module, h: int, q: Tensor, k: Tensor, d: int) -> Tensor:
    """The four terms of section 3.3, with the sinusoid of i - j written out.

    Of an odd width there is one sine more than cosines.
    """
    width = module.weight.shape[1]
    angles = [d * 10000 ** (-2 * i / width) for i in range((width + 1) // 2)]
    cosines = [math.cos(x) for x in angles[: width // 2]]
    r = torch.tensor([*(math.sin(x) for x in angles), *cosines]).double()
    w_r = module.weight[h].T
    u, v = module.u[h], module.v[h]
    return (q @ k + q @ (w_r @ r) + u @ k + v @ (w_r @ r)) / math.sqrt(WIDTH)


KINDS = {
    "shaw": Kind(lambda: ShawKeys(WIDTH, furthest=2), shaw),
    "t5, causal": Kind(
        lambda: Biased(Dot(), T5Buckets(HEADS, causal=True, buckets=8, furthest=20)), t5(True)
    ),
    "t5, bidirectional": Kind(
        lambda: Biased(Dot(), T5Buckets(HEADS, causal=False, buckets=8, furthest=20)), t5(False)
    ),
    "alibi": Kind(lambda: Biased(ScaledDot(), ALiBi(HEADS)), alibi),
    "transformer-xl": Kind(lambda: TransformerXLScore(HEADS, WIDTH, D_MODEL), transformer_xl),
    "transformer-xl, odd": Kind(lambda: TransformerXLScore(HEADS, WIDTH, 5), transformer_xl),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("relative", OFFSETS)
def test_a_score_is_its_equation_for_every_pair(
    name: str, queries: int, keys: int, relative: RelativeOffset
) -> None:
    torch.manual_seed(0)
    kind = KINDS[name]
    module = randomised(kind.build())
    query, key = drawn(queries, WIDTH), drawn(keys, WIDTH)
    found = module(query, key, relative)
    b = 1
    expected = torch.stack([
        torch.stack([
            torch.stack([
                kind.score(module, h, query[b, h, i], key[b, h, j], distance(i, j, relative))
                for j in range(keys)
            ])
            for i in range(queries)
        ])
        for h in range(HEADS)
    ])  # fmt: skip
    # Sinusoids are tabled in float32.
    torch.testing.assert_close(found[b], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    module = randomised(KINDS[name].build())
    query, key = drawn(2, WIDTH), drawn(4, WIDTH)

    def scores(query: Tensor, key: Tensor, *parameters: Tensor) -> Tensor:
        of = dict(zip(dict(module.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(module, of, (query, key, RelativeOffset(2)))

    assert torch.autograd.gradcheck(scores, (query, key, *module.parameters()))


@pytest.mark.parametrize("name", KINDS)
def test_queries_behind_a_past_have_the_rows_of_the_whole(name: str) -> None:
    module = randomised(KINDS[name].build())
    query, key = drawn(9, WIDTH), drawn(9, WIDTH)
    whole = module(query, key, RelativeOffset())
    for start, length in [(0, 9), (4, 5), (8, 1)]:
        part = module(query[:, :, start : start + length], key, RelativeOffset(start))
        torch.testing.assert_close(part, whole[:, :, start : start + length])


def test_transformer_xl_scores_many_queries_as_it_scores_few() -> None:
    """The two orders of its products: which is cheaper depends on the number of queries."""
    module = randomised(TransformerXLScore(HEADS, WIDTH, D_MODEL))
    query, key = drawn(8, WIDTH), drawn(11, WIDTH)
    together = module(query, key, RelativeOffset(3))
    for i in range(8):
        alone = module(query[:1, :, i : i + 1], key[:1], RelativeOffset(3 + i))
        torch.testing.assert_close(alone, together[:1, :, i : i + 1])


def test_transformer_xl_takes_the_sinusoids_of_the_paper() -> None:
    """The row of a distance ahead is that of the distance with its sines turned round."""
    module = TransformerXLScore(1, 1, 8)
    table = sinusoidal(4, 8, pairing="halves")
    ahead = torch.cat((-table[1, :4], table[1, 4:]))
    for column in range(8):  # a score that is one number of the row of its distance
        with torch.no_grad():
            for parameter, value in ((module.u, 0), (module.v, 1), (module.weight, 0)):
                parameter.fill_(value)
            module.weight[0, column] = 1
        found = module(torch.zeros(1, 1, 3, 1), torch.zeros(1, 1, 2, 1))[0, 0]
        distance_of = [[table[0], ahead], [table[1], table[0]], [table[2], table[1]]]
        expected = torch.stack([torch.stack([row[column] for row in rows]) for rows in distance_of])
        torch.testing.assert_close(found, expected)


# Values that know distances


@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("relative", OFFSETS)
def test_shaws_values_are_equation_3(queries: int, keys: int, relative: RelativeOffset) -> None:
    module = randomised(ShawValues(WIDTH, furthest=2))
    weights, value = drawn(queries, keys), drawn(keys, WIDTH)
    found = module(weights, value, relative)
    for i in range(queries):
        expected = 0
        for j in range(keys):
            row = min(max(-distance(i, j, relative), -2), 2) + 2
            expected = expected + weights[1, :, i, j, None] * (
                value[1, :, j] + module.vectors.table[row]
            )
        torch.testing.assert_close(found[1, :, i], expected)


def test_gradients_of_shaws_values() -> None:
    module = randomised(ShawValues(WIDTH, furthest=1))

    def combined(weights: Tensor, value: Tensor, table: Tensor) -> Tensor:
        of = {"vectors.table": table}
        return torch.func.functional_call(module, of, (weights, value, RelativeOffset(1)))

    assert torch.autograd.gradcheck(combined, (drawn(2, 3), drawn(3, WIDTH), module.vectors.table))


def test_without_vectors_shaws_attention_is_the_plain_one() -> None:
    keys, values = ShawKeys(WIDTH).double(), ShawValues(WIDTH).double()
    for module in (keys, values):
        nn.init.zeros_(module.vectors.table)
    query, key, value = drawn(5, WIDTH), drawn(5, WIDTH), drawn(5, WIDTH)
    mask = causal.dense(5, 5)
    found = attend(query, key, value, mask=mask, score=keys, combine=values)
    torch.testing.assert_close(found, attend(query, key, value, mask=mask))
    weights = drawn(5, 5)
    torch.testing.assert_close(values(weights, value), weighted_sum(weights, value))


# T5's buckets and ALiBi's slopes, beside other people's


def test_defaults_are_those_of_the_papers() -> None:
    """Shaw et al. 2018, section 4.1: k = 16. Raffel et al. 2020, section 2.1: 32 up to 128."""
    keys, values = ShawKeys(WIDTH), ShawValues(WIDTH)
    assert keys.vectors.table.shape == values.vectors.table.shape == (2 * 16 + 1, WIDTH)
    d = torch.arange(-200, 201)
    expected = t5_bucket(d, causal=True, buckets=32, furthest=128)
    assert torch.equal(t5_bucket(d, causal=True), expected)
    t5 = T5Buckets(1, causal=True)
    t5.table.data.copy_(torch.arange(32)[None])
    assert torch.equal(t5(d)[0].long(), expected)


@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (8, 20), (16, 64)])
@pytest.mark.parametrize("causal", [True, False])
def test_buckets_are_those_of_hugging_face(buckets: int, furthest: int, causal: bool) -> None:
    d = torch.arange(-1000, 1001)
    expected = T5Attention._relative_position_bucket(-d, not causal, buckets, furthest)
    found = t5_bucket(d, causal, buckets, furthest)
    assert torch.equal(found, expected)
    assert found.unique().numel() > buckets // 2


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16, 20])
def test_slopes_are_those_of_bloom(heads: int) -> None:
    theirs = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)
    torch.testing.assert_close(torch.tensor(alibi_slopes(heads)), theirs[:, 0, 1])


def test_slopes_of_eight_heads_are_those_of_the_paper() -> None:
    assert alibi_slopes(8) == [2.0**-n for n in range(1, 9)]


def test_alibi_under_a_causal_mask_is_that_of_bloom() -> None:
    """Bloom adds slope * j instead of -slope * (i - j): the softmax sees no difference."""
    query, key = drawn(6, WIDTH), drawn(6, WIDTH)
    mask = causal.dense(6, 6)
    seen: list[Tensor] = []
    attend(query, key, key, mask=mask, score=Biased(ScaledDot(), ALiBi(HEADS)), observe=seen.append)
    theirs = build_alibi_tensor(torch.ones(1, 6, dtype=torch.long), HEADS, torch.float64)
    scores = ScaledDot()(query, key) + theirs
    torch.testing.assert_close(seen[0], scores.masked_fill(~mask, -math.inf).softmax(-1))
