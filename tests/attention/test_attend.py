import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from crosshead.attention import attend as attend_module
from crosshead.attention.attend import (
    FEW_KEYS,
    FEW_QUERIES,
    FUSED_FROM,
    Backend,
    attend,
    explicit,
    is_faster_fused,
    sdpa,
    softmax,
    softmax_of_few_keys,
    weighted_sum,
    weighted_sum_of_one_query,
)
from crosshead.attention.masks import Mask, causal, padding_mask, window
from crosshead.attention.scores import RelativeOffset, ScaledDot, products_of_one_query

BACKENDS = [explicit, sdpa]


@dataclass
class Inputs:
    query: Tensor
    key: Tensor
    value: Tensor

    def leaves(self) -> list[Tensor]:
        """Copies that collect gradients of their own."""
        return [x.detach().clone().requires_grad_() for x in (self.query, self.key, self.value)]


def inputs(
    seed: int, batch: int = 2, heads: int = 2, queries: int = 4, keys: int = 5, width: int = 3,
    dtype: torch.dtype = torch.float32,
) -> Inputs:  # fmt: skip
    generator = torch.Generator().manual_seed(seed)

    def normal(length: int) -> Tensor:
        return torch.randn(batch, heads, length, width, generator=generator, dtype=dtype)

    return Inputs(normal(queries), normal(keys), normal(keys))


def by_loops(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Eq. 1, one query at a time, over the keys that it may attend to and no others."""
    batch, heads, queries, width = query.shape
    output = torch.zeros(batch, heads, queries, value.shape[-1], dtype=query.dtype)
    allowed = mask.expand(batch, heads, queries, key.shape[2])
    for b in range(batch):
        for h in range(heads):
            for q in range(queries):
                chosen = allowed[b, h, q]
                if chosen.any():
                    scores = key[b, h][chosen] @ query[b, h, q] / math.sqrt(width)
                    output[b, h, q] = scores.softmax(0) @ value[b, h][chosen]
    return output


def random_mask(seed: int, batch: int, heads: int, queries: int, keys: int, share: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(batch, heads, queries, keys, generator=generator) < share


@st.composite
def cases(draw: st.DrawFn) -> tuple[Inputs, Tensor | None]:
    """Random inputs with a random mask, which may be missing or broadcast along any axis."""
    sizes = {name: draw(st.integers(1, 5)) for name in ("batch", "heads", "queries", "keys")}
    seed = draw(st.integers(0, 2**31))
    drawn = inputs(seed, width=draw(st.integers(1, 9)), **sizes)
    if draw(st.booleans()) and draw(st.booleans()):
        return drawn, None
    broadcast = {name: size if draw(st.booleans()) else 1 for name, size in sizes.items()}
    share = draw(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))
    return drawn, random_mask(seed, share=share, **broadcast)


@settings(max_examples=60)
@given(cases())
def test_backends_are_equal_in_outputs_and_gradients(case: tuple[Inputs, Tensor | None]) -> None:
    drawn, mask = case
    results = []
    for backend in BACKENDS:
        leaves = drawn.leaves()
        output = attend(*leaves, mask=mask, backend=backend)
        # Weighted, so that no gradient is zero for reasons of symmetry.
        (output * torch.arange(1.0, output.numel() + 1).view_as(output).sin()).sum().backward()
        results.append([output.detach(), *(leaf.grad for leaf in leaves)])
    for first, second in zip(*results, strict=True):
        assert torch.isfinite(first).all()
        assert torch.isfinite(second).all()
        torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_long_sequences_take_the_fused_form_and_are_equal_to_the_equation(masked: bool) -> None:
    drawn = inputs(3, keys=70, queries=66)
    mask = random_mask(3, 2, 1, 66, 70, 0.4) if masked else None
    assert is_faster_fused(drawn.query, drawn.key, mask, 0.0)
    expected = attend(drawn.query, drawn.key, drawn.value, mask=mask, backend=explicit)
    found = attend(drawn.query, drawn.key, drawn.value, mask=mask)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found, sdpa_of(drawn, mask), rtol=0, atol=0)


def sdpa_of(drawn: Inputs, mask: Tensor | None) -> Tensor:
    return attend(drawn.query, drawn.key, drawn.value, mask=mask, backend=sdpa)


def test_the_fused_form_is_for_many_keys_or_few_queries_without_dropout_in_float32() -> None:
    short, long = (inputs(3, keys=keys, queries=99) for keys in (FUSED_FROM - 1, FUSED_FROM))
    few = inputs(3, keys=2, queries=1)
    mask = torch.ones(1, 1, 1, FUSED_FROM, dtype=torch.bool)
    assert not is_faster_fused(short.query, short.key, None, 0.0)
    assert is_faster_fused(long.query, long.key, None, 0.0)
    assert not is_faster_fused(long.query, long.key, mask, 0.0)
    assert not is_faster_fused(long.query, long.key, None, 0.1)
    assert not is_faster_fused(long.query.bfloat16(), long.key.bfloat16(), None, 0.0)
    assert is_faster_fused(few.query, few.key, mask[..., :2], 0.0)
    assert not is_faster_fused(few.query, few.key, None, 0.1)


@settings(max_examples=25)
@given(cases())
def test_it_is_equation_1_over_the_allowed_keys(case: tuple[Inputs, Tensor | None]) -> None:
    drawn, mask = case
    everyone = torch.ones(1, 1, 1, drawn.key.shape[2], dtype=torch.bool)
    expected = by_loops(drawn.query, drawn.key, drawn.value, everyone if mask is None else mask)
    output = attend(drawn.query, drawn.key, drawn.value, mask=mask)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


def test_a_mask_that_differs_by_head_is_evaluated_for_every_head() -> None:
    x = inputs(0)
    mask = Mask(lambda b, h, q, k: (k <= q) | (h == 1))
    dense = mask.dense(4, 5, heads=2)
    assert torch.equal(
        attend(x.query, x.key, x.value, mask=mask), attend(x.query, x.key, x.value, mask=dense)
    )


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_query_with_no_key_gathers_zeros_and_passes_no_gradient(backend: Callable) -> None:
    leaves = inputs(1).leaves()
    mask = random_mask(1, 2, 2, 4, 5, 0.5)
    mask[0, :, 1] = False
    with torch.autograd.detect_anomaly(check_nan=True):
        output = attend(*leaves, mask=mask, backend=backend)
        output.square().sum().backward()
    assert (output[0, :, 1] == 0).all()
    assert (output[1] != 0).all()
    query_gradient = leaves[0].grad
    assert (query_gradient[0, :, 1] == 0).all()
    assert all(torch.isfinite(leaf.grad).all() for leaf in leaves)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_to_attend_to_at_all(backend: Callable) -> None:
    leaves = inputs(2).leaves()
    mask = torch.zeros(1, 1, 1, 5, dtype=torch.bool)
    output = attend(*leaves, mask=mask, backend=backend)
    output.sum().backward()
    assert (output == 0).all()
    assert all((leaf.grad == 0).all() for leaf in leaves)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_masked_key_has_no_influence_however_large(backend: Callable) -> None:
    drawn = inputs(3)
    mask = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    mask[..., 2] = False
    before = attend(drawn.query, drawn.key, drawn.value, mask=mask, backend=backend)
    drawn.key[:, :, 2] = 1e6
    drawn.value[:, :, 2] = -1e6
    assert torch.equal(
        attend(drawn.query, drawn.key, drawn.value, mask=mask, backend=backend), before
    )


def test_a_masked_key_does_not_win_over_allowed_keys_of_score_minus_infinity() -> None:
    """A score may rule keys out by itself, beside the mask."""
    drawn = inputs(3, queries=2, keys=3)
    mask = torch.tensor([True, True, False]).view(1, 1, 1, 3)
    ruled_out = torch.tensor([-math.inf, 0.0, 0.0])
    seen: list[Tensor] = []
    output = attend(
        drawn.query, drawn.key, drawn.value,
        mask=mask, score=lambda q, k, relative: ScaledDot()(q, k) + ruled_out, observe=seen.append,
    )  # fmt: skip
    assert torch.equal(seen[0], torch.tensor([0.0, 1.0, 0.0]).expand(2, 2, 2, 3))
    assert torch.equal(output, drawn.value[:, :, 1:2].expand(2, 2, 2, 3))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("masked", [60_000.0, -60_000.0])
def test_scores_at_the_end_of_float16(masked: float, backend: Callable) -> None:
    """Two allowed keys of score -60,000 share the weight, whatever the masked one's score is."""
    query = torch.ones(1, 1, 1, 1, dtype=torch.float16)
    key = torch.tensor([-60_000.0, masked, -60_000.0], dtype=torch.float16).view(1, 1, 3, 1)
    value = torch.tensor([1.0, 100.0, 3.0], dtype=torch.float16).view(1, 1, 3, 1)
    mask = torch.tensor([True, False, True]).view(1, 1, 1, 3)
    assert attend(query, key, value, mask=mask, backend=backend).item() == 2.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_and_values_broadcast_over_batch_and_heads(backend: Callable) -> None:
    drawn = inputs(4)
    key, value = drawn.key[:1, :1], drawn.value[:1, :1]
    expected = attend(drawn.query, key.expand(2, 2, -1, -1), value.expand(2, 2, -1, -1))
    output = attend(drawn.query, key, value, backend=backend)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_float64_is_computed_in_float64(backend: Callable) -> None:
    drawn = inputs(5, dtype=torch.float64)
    mask = random_mask(5, 2, 2, 4, 5, 0.6)
    output = attend(drawn.query, drawn.key, drawn.value, mask=mask, backend=backend)
    assert output.dtype == torch.float64
    expected = by_loops(drawn.query, drawn.key, drawn.value, mask)
    torch.testing.assert_close(output, expected, rtol=1e-13, atol=1e-13)


def test_gradients_are_those_of_finite_differences() -> None:
    leaves = inputs(6, batch=1, queries=3, keys=3, dtype=torch.float64).leaves()
    mask = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 1]], dtype=torch.bool)[None, None]
    for backend in BACKENDS:
        torch.autograd.gradcheck(lambda *x, b=backend: attend(*x, mask=mask, backend=b), leaves)


def test_bfloat16_weights_are_the_float32_softmax_rounded_once() -> None:
    drawn = inputs(7, queries=3, keys=300, width=8)
    query, key, value = (x.bfloat16() for x in (drawn.query, drawn.key, drawn.value))
    seen: list[Tensor] = []
    output = attend(query, key, value, observe=seen.append)
    assert output.dtype == seen[0].dtype == torch.bfloat16
    assert torch.equal(seen[0], ScaledDot()(query, key).float().softmax(-1).bfloat16())


def test_bfloat16_backends_agree_to_its_precision() -> None:
    drawn = inputs(7, queries=6, keys=6, width=8)
    half = [x.bfloat16() for x in (drawn.query, drawn.key, drawn.value)]
    mask = causal.dense(6, 6)
    exact = attend(*(x.float() for x in half), mask=mask)
    for backend in BACKENDS:
        output = attend(*half, mask=mask, backend=backend).float()
        torch.testing.assert_close(output, exact, rtol=0.02, atol=0.02)


# Observation


@settings(max_examples=30)
@given(cases())
def test_observed_weights_are_distributions_over_the_allowed_keys(
    case: tuple[Inputs, Tensor | None],
) -> None:
    drawn, mask = case
    seen: list[Tensor] = []
    output = attend(drawn.query, drawn.key, drawn.value, mask=mask, observe=seen.append)
    (weights,) = seen
    allowed = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask
    allowed = allowed.expand_as(weights)
    assert (weights >= 0).all()
    assert (weights[~allowed] == 0).all()
    expected_sums = allowed.any(-1).to(weights.dtype)
    torch.testing.assert_close(weights.sum(-1), expected_sums, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(weights @ drawn.value, output, rtol=1e-5, atol=1e-5)


def test_observing_changes_nothing() -> None:
    drawn = inputs(8)
    mask = random_mask(8, 2, 2, 4, 5, 0.3)
    silent = attend(drawn.query, drawn.key, drawn.value, mask=mask)
    seen: list[Tensor] = []
    observed = attend(drawn.query, drawn.key, drawn.value, mask=mask, observe=seen.append)
    torch.testing.assert_close(silent, observed)


def test_weights_are_observed_before_dropout() -> None:
    drawn = inputs(9)
    seen: list[Tensor] = []
    attend(drawn.query, drawn.key, drawn.value, dropout=0.5, observe=seen.append)
    torch.testing.assert_close(seen[0].sum(-1), torch.ones(2, 2, 4))


# Dropout


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_keeps_the_mean_and_drops_the_stated_share(backend: Callable) -> None:
    """Values are the identity, so that the outputs are the weights after dropout."""
    keys, share = 64, 0.25
    query, key = torch.zeros(8, 4, 16, 2), torch.zeros(8, 4, keys, 2)
    value = torch.eye(keys).expand(8, 4, -1, -1)
    torch.manual_seed(0)
    weights = attend(query, key, value, dropout=share, backend=backend)
    kept = weights[weights != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / keys / (1 - share)))
    deviation = math.sqrt(share * (1 - share) / weights.numel())
    assert abs((weights == 0).float().mean() - share) < 5 * deviation


# What can be handed in


class AdditiveScore(nn.Module):
    """v^T tanh(W q + U k): Bahdanau et al. 2015, appendix A.1.2."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, hidden), nn.Linear(width, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor, relative: RelativeOffset) -> Tensor:
        together = self.query(query)[..., :, None, :] + self.key(key)[..., None, :, :]
        return self.v(together.tanh()).squeeze(-1)


class RelativePositions(nn.Module):
    """Learned vectors of clipped distances, for keys and values: Shaw et al. 2018, Eqs. 3 and 4."""

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.keys = nn.Parameter(torch.randn(2 * reach + 1, width))
        self.values = nn.Parameter(torch.randn(2 * reach + 1, width))

    def distances(self, queries: int, keys: int) -> Tensor:
        distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
        return distance.clamp(-self.reach, self.reach) + self.reach

    def score(self, query: Tensor, key: Tensor, relative: RelativeOffset) -> Tensor:
        relative = self.keys[self.distances(query.shape[2], key.shape[2])]
        content = query @ key.transpose(-2, -1)
        position = torch.einsum("bhqe,qke->bhqk", query, relative)
        return (content + position) / math.sqrt(query.shape[-1])

    def combine(self, weights: Tensor, value: Tensor, relative: RelativeOffset) -> Tensor:
        relative = self.values[self.distances(*weights.shape[2:])]
        return weights @ value + torch.einsum("bhqk,qke->bhqe", weights, relative)


@dataclass(frozen=True)
class LinearBias:
    """Scores fall with distance, by a slope for each head: Press et al. 2022, section 3."""

    slopes: Tensor

    def __call__(self, query: Tensor, key: Tensor, relative: RelativeOffset) -> Tensor:
        distance = torch.arange(key.shape[2])[None, :] - torch.arange(query.shape[2])[:, None]
        return ScaledDot()(query, key) - self.slopes[:, None, None] * distance.abs()


def test_additive_scores_can_be_handed_in() -> None:
    drawn, score = inputs(10), AdditiveScore(3, 7)
    seen: list[Tensor] = []
    mask = random_mask(10, 2, 1, 4, 5, 0.7)
    output = attend(
        drawn.query, drawn.key, drawn.value, mask=mask, score=score, observe=seen.append
    )
    output.sum().backward()
    assert score.v.weight.grad.abs().sum() > 0
    b, h, q = 1, 1, 2
    allowed = mask[b, 0, q]
    scores = torch.stack([
        score.v.weight[0] @ (score.query(drawn.query[b, h, q]) + score.key(k)).tanh()
        for k in drawn.key[b, h][allowed]
    ])  # fmt: skip
    torch.testing.assert_close(seen[0][b, h, q][allowed], scores.softmax(0))


def test_relative_positions_can_be_handed_in() -> None:
    drawn, relative = inputs(11), RelativePositions(3, reach=2)
    mask = random_mask(11, 2, 1, 4, 5, 0.6)
    mask[0, 0, 3] = False
    output = attend(
        drawn.query, drawn.key, drawn.value,
        mask=mask, score=relative.score, combine=relative.combine,
    )  # fmt: skip
    for b, h, q in [(0, 0, 0), (1, 1, 3), (0, 1, 2)]:
        keys = [k for k in range(5) if mask[b, 0, q, k]]
        offsets = [max(-2, min(2, k - q)) + 2 for k in keys]
        scores = torch.stack([
            drawn.query[b, h, q] @ (drawn.key[b, h, k] + relative.keys[a]) / math.sqrt(3)
            for k, a in zip(keys, offsets, strict=True)
        ])  # fmt: skip
        values = torch.stack([
            drawn.value[b, h, k] + relative.values[a] for k, a in zip(keys, offsets, strict=True)
        ])  # fmt: skip
        torch.testing.assert_close(output[b, h, q], scores.softmax(0) @ values)
    assert (output[0, :, 3] == 0).all()


def test_a_bias_can_be_handed_in() -> None:
    """With equal keys only the bias is left: weights fall by exp(slope) with each step away."""
    drawn = inputs(12, queries=5, keys=5)
    drawn.key[:] = 1.0
    slopes = torch.tensor([0.5, 2.0])
    seen: list[Tensor] = []
    attend(
        drawn.query, drawn.key, drawn.value,
        mask=causal.dense(5, 5), score=LinearBias(slopes), observe=seen.append,
    )  # fmt: skip
    for head, slope in enumerate(slopes):
        last = seen[0][0, head, 4]
        torch.testing.assert_close(last[1:] / last[:-1], torch.full((4,), math.exp(slope)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_are_masks(backend: Callable) -> None:
    """A window over a long sequence is the same as attending to the window's keys alone."""
    drawn = inputs(13, queries=9, keys=9)
    window = Mask(lambda b, h, q, k: q - k < 3) & causal
    output = attend(drawn.query, drawn.key, drawn.value, mask=window.dense(9, 9), backend=backend)
    last = attend(drawn.query[:, :, 8:], drawn.key[:, :, 6:], drawn.value[:, :, 6:])
    torch.testing.assert_close(output[:, :, 8:], last)


WHOLE_MASKS: dict[str, Callable[[], Mask]] = {
    "all before": lambda: causal,
    "blocks": lambda: causal & window(2),
    "blocks of sentences": lambda: (
        window(2) & padding_mask(torch.arange(300).expand(2, 300) % 7 > 0)
    ),
    "of heads": lambda: Mask(lambda b, h, q, k: (q - k) % (h + 2) == 0, heads=2),
}
"""Long enough for blocks to be chosen where there are any."""


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("name", WHOLE_MASKS)
def test_a_mask_is_evaluated_for_what_attends(name: str, backend: Backend | None) -> None:
    mask = WHOLE_MASKS[name]()
    drawn = inputs(11, queries=300, keys=300, dtype=torch.float64)
    expected = attend(drawn.query, drawn.key, drawn.value, mask=mask.dense(300, 300))
    found = attend(drawn.query, drawn.key, drawn.value, mask=mask, backend=backend)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    # The last queries alone, behind what a cache holds.
    rows = attend(drawn.query[:, :, 297:], drawn.key, drawn.value, mask=mask, offset=297)
    torch.testing.assert_close(rows, expected[:, :, 297:], rtol=1e-10, atol=1e-12)


def test_a_mask_of_other_sentences_is_refused() -> None:
    drawn = inputs(12)
    with pytest.raises(ValueError, match="mask is made for 3 sentences and used with 2"):
        attend(drawn.query, drawn.key, drawn.value, mask=padding_mask(torch.ones(3, 5).bool()))


@pytest.mark.parametrize(
    "other",
    [
        {"score": AdditiveScore(3, 4)},
        {"combine": lambda weights, value, relative: weights @ value},
        {"observe": lambda weights: None},
    ],
    ids=["score", "combine", "observe"],
)
def test_sdpa_refuses_what_it_cannot_compute(other: dict[str, Callable]) -> None:
    drawn = inputs(14)
    with pytest.raises(ValueError, match="backend=explicit"):
        attend(drawn.query, drawn.key, drawn.value, backend=sdpa, **other)


def test_sdpa_takes_another_scale() -> None:
    drawn = inputs(15)
    results = [
        attend(drawn.query, drawn.key, drawn.value, score=ScaledDot(0.1), backend=backend)
        for backend in BACKENDS
    ]
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(results[0], attend(drawn.query, drawn.key, drawn.value))


def test_weighted_sum_is_a_matrix_product() -> None:
    weights, value = torch.rand(2, 3, 4, 5), torch.rand(2, 3, 5, 6)
    torch.testing.assert_close(
        weighted_sum(weights, value), torch.einsum("bhqk,bhke->bhqe", weights, value)
    )


@pytest.mark.parametrize(
    ("device", "more", "expected"),
    [
        ("cpu", {}, "explicit"),
        ("meta", {}, "sdpa"),
        ("meta", {"observe": lambda weights: None}, "explicit"),
        ("meta", {"score": lambda query, key, relative: query @ key.mT}, "explicit"),
        ("meta", {"combine": lambda weights, value, relative: weights @ value}, "explicit"),
    ],
)
def test_the_fused_kernel_is_for_what_it_computes_on_other_devices_than_cpus(
    device: str, more: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = []
    for kernel in (explicit, sdpa):

        def noted(*tensors: Tensor, kernel: Backend = kernel, **settings: Any) -> Tensor:
            chosen.append(kernel.__name__)
            return kernel(*tensors, **settings)

        monkeypatch.setattr(attend_module, kernel.__name__, noted)
    x = inputs(0, queries=FEW_QUERIES)
    attend(*(part.to(device) for part in (x.query, x.key, x.value)), **more)
    assert chosen == [expected]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("keys", [1, 5, 20])
def test_fast_forms_are_the_plain_operations(keys: int, batch: int) -> None:
    """Outputs and gradients; keys and values are shared by the batch where it is larger."""
    x, dtype = inputs(keys, batch, queries=1, keys=keys, dtype=torch.float64), torch.float64
    shared = inputs(keys, 1, keys=keys, dtype=dtype)
    pairs: list[tuple[Callable, Callable, tuple[Tensor, ...]]] = [
        (products_of_one_query, lambda q, k: q @ k.mT, (x.query, shared.key)),
        (weighted_sum_of_one_query, lambda w, v: w @ v, (x.key[..., :1].mT, shared.value)),
        (softmax_of_few_keys, lambda scores: scores.softmax(-1), (x.key.mT,)),
    ]
    for fast, plain, operands in pairs:
        leaves = [each.detach().clone().requires_grad_() for each in operands]
        found, expected = fast(*leaves), plain(*leaves)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        grad = torch.randn_like(expected)
        gradients = [torch.autograd.grad(output, leaves, grad) for output in (found, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("keys", [1, 3, FEW_KEYS - 1, FEW_KEYS, 40])
def test_few_keys_and_many_have_the_softmax_that_pytorch_has_in_float32(
    keys: int, dtype: torch.dtype
) -> None:
    """Over the first axis, as it is for few keys, and without raising bfloat16 first."""
    generator = torch.Generator().manual_seed(keys)
    scores = (8 * torch.randn(5, 2, 7, keys, generator=generator)).to(dtype)
    scores[..., 1:] = scores[..., 1:].masked_fill(scores[..., 1:] > 6, -math.inf)
    grad = torch.randn(scores.shape, generator=generator).to(dtype)
    found, plain = scores.clone().requires_grad_(), scores.double().requires_grad_()
    weights, expected = softmax(found), plain.softmax(-1)
    weights.backward(grad)
    expected.backward(grad.double())
    assert weights.is_contiguous() and weights.dtype == dtype
    assert found.grad is not None and plain.grad is not None
    step = torch.finfo(dtype).eps
    # Processors differ in the last bits of an exponential: 3.7 steps without vector instructions.
    steps = 2 if dtype == torch.bfloat16 else 8
    torch.testing.assert_close(weights.double(), expected, rtol=steps * step, atol=1e-8)
    torch.testing.assert_close(found.grad.double(), plain.grad, rtol=0, atol=8 * step)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("keys", [1, 5, 20])
def test_one_query_is_one_of_several(keys: int, dtype: torch.dtype) -> None:
    """Decoding asks one query at a time, which is computed in a form of its own."""
    x = inputs(keys, queries=3, keys=keys, width=8, dtype=dtype)
    together = x.leaves()
    alone = x.leaves()
    expected = attend(*together)
    found = torch.cat([attend(q, *alone[1:]) for q in alone[0].split(1, dim=2)], dim=2)
    tolerance = (
        {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 0.03, "atol": 0.03}
    )
    torch.testing.assert_close(found, expected, **tolerance)
    expected.sum().backward()
    found.sum().backward()
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a.grad, b.grad, **tolerance)
