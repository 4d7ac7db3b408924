import pytest
import torch
from torch import Tensor, nn

from crosshead.attention.attend import explicit
from crosshead.attention.scores import RelativeOffset, ScaledDot
from crosshead.layers.source_attention import LocalWindow, SourceAttention

WIDTH, LENGTHS = 6, [5, 9, 1]


def local(radius: int) -> SourceAttention:
    torch.manual_seed(0)
    query = nn.Linear(WIDTH, WIDTH, bias=False)
    window = LocalWindow(WIDTH, radius)
    return SourceAttention(query, nn.Identity(), ScaledDot(1.0), window).double()


def sources() -> tuple[Tensor, Tensor]:
    """Memories of three lengths, and their mask."""
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return torch.randn(3, max(LENGTHS), WIDTH).double(), mask[:, None, None]


@pytest.mark.parametrize("radius", [1, 2, 10])
def test_local_p_is_equations_9_and_10(radius: int) -> None:
    """Luong et al. 2015, section 3.2, one query and one position at a time."""
    attention = local(radius)
    memory, mask = sources()
    queries = torch.randn(3, 4, WIDTH).double()
    found = attention(queries, attention.project(memory), mask)
    window = attention.window
    assert window is not None
    w_a, w_p, v_p = attention.query.weight, window.inner.weight, window.outer.weight[0]
    for row, length in enumerate(LENGTHS):
        for t, h in enumerate(queries[row]):
            p = length * torch.sigmoid(v_p @ torch.tanh(w_p @ h))
            inside = [s for s in range(length) if p - radius <= s <= p + radius]
            aligned = torch.stack([h @ w_a.T @ memory[row, s] for s in inside]).softmax(0)
            sigma = radius / 2
            context = sum(
                a * torch.exp(-((s - p) ** 2) / (2 * sigma**2)) * memory[row, s]
                for s, a in zip(inside, aligned, strict=True)
            )
            torch.testing.assert_close(found[row, t], context)


@pytest.mark.parametrize("length", [130, 259, 1000])
def test_in_16_bits_it_looks_where_it_looks_in_32(length: int) -> None:
    """At the same places, with the same nearness: neither is a matter of the queries' type."""
    torch.manual_seed(0)
    narrow = LocalWindow(WIDTH, radius=1).bfloat16()
    wide = LocalWindow(WIDTH, radius=1)
    wide.load_state_dict(narrow.state_dict())
    wide.inner.forward = lambda x: narrow.inner(x.bfloat16()).float()  # type: ignore[method-assign]
    wide.outer.forward = lambda x: narrow.outer(x.bfloat16()).float()  # type: ignore[method-assign]
    queries, mask = torch.randn(1, 200, WIDTH).bfloat16(), torch.ones(1, 1, 1, length).bool()
    (allowed, combine), (expected, wanted) = narrow(queries, mask), wide(queries.float(), mask)
    assert torch.equal(allowed, expected)
    value = torch.eye(length)[None, None]
    weights = torch.ones(1, 1, 200, length)
    found, right = (
        combine(weights, value, RelativeOffset()),
        wanted(weights, value, RelativeOffset()),
    )
    torch.testing.assert_close(found, right)
    assert ((right * allowed).sum(-1) > 0.1).all()


def test_the_predicted_position_is_learned() -> None:
    attention = local(radius=2)
    memory, mask = sources()
    attention(torch.randn(3, 4, WIDTH).double(), attention.project(memory), mask).sum().backward()
    window = attention.window
    assert window is not None
    assert window.inner.weight.grad.any() and window.outer.weight.grad.any()


def test_rows_of_a_sentence_look_as_if_alone() -> None:
    attention = local(radius=2)
    memory, mask = sources()
    projected = attention.project(memory)
    rows = torch.randn(6, 2, WIDTH).double()
    together = attention(rows, projected, mask)
    for hypothesis in (0, 1):
        alone = attention(rows[hypothesis::2], projected, mask)
        torch.testing.assert_close(together[hypothesis::2], alone)


def test_the_weights_that_are_recorded_are_those_that_are_used() -> None:
    """Those of Eq. 10, which the context is the sum by; the softmax before it is not shown."""
    attention, shown = local(radius=1), []
    attention.observe, attention.backend = shown.append, explicit
    memory, mask = sources()
    contexts = attention(torch.randn(3, 4, WIDTH).double(), attention.project(memory), mask)
    [weights] = shown
    assert weights.shape == (3, 1, 4, 9)
    torch.testing.assert_close((weights @ memory[:, None]).squeeze(1), contexts)
    assert (weights.sum(-1) < 1).all()
    assert int((weights > 0).sum(-1).max()) <= 3
    assert not weights[~mask.expand_as(weights)].any()


def test_of_an_empty_source_nothing_is_seen() -> None:
    attention, shown = local(radius=1), []
    attention.observe, attention.backend = shown.append, explicit
    memory = torch.randn(1, 1, WIDTH).double()
    nowhere = torch.zeros(1, 1, 1, 1).bool()
    assert not attention(
        torch.randn(1, 2, WIDTH).double(), attention.project(memory), nowhere
    ).any()
    assert not shown[0].any()
