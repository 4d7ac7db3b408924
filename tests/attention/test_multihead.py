from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from crosshead.attention.attend import explicit, sdpa
from crosshead.attention.masks import Mask, causal, padding_mask
from crosshead.attention.multihead import MultiHeadAttention
from tests.attention.torch_weights import check_gradients, copy_attention, randomise


def pair(d_model: int, heads: int) -> tuple[nn.MultiheadAttention, MultiHeadAttention]:
    """PyTorch's module with random biases too, and ours with its weights."""
    torch.manual_seed(d_model + heads)
    theirs = nn.MultiheadAttention(d_model, heads, batch_first=True, dtype=torch.float64)
    randomise(theirs)
    width = d_model // heads
    ours = MultiHeadAttention(d_model, heads, d_key=width, d_value=width).double()
    copy_attention(theirs, ours)
    return theirs, ours


VALID = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] + [False] * 5])


@pytest.mark.parametrize("backend", [explicit, sdpa])
@pytest.mark.parametrize("masks", ["none", "padding", "causal", "both"])
def test_self_attention_is_that_of_torch(masks: str, backend: Callable) -> None:
    theirs, ours = pair(8, 2)
    ours.backend = backend
    x = torch.randn(3, 6, 8, dtype=torch.float64)
    weighting = torch.randn(3, 6, 8, dtype=torch.float64)
    padding, later = masks in ("padding", "both"), masks in ("causal", "both")
    # PyTorch marks what may *not* be attended to.
    expected, _ = theirs(
        x, x, x,
        key_padding_mask=~VALID if padding else None,
        attn_mask=~causal.dense(6, 6)[0, 0] if later else None,
    )  # fmt: skip
    everything = Mask(lambda b, h, q, k: torch.ones_like(b | h | q | k, dtype=torch.bool))
    mask = (padding_mask(VALID) if padding else everything) & (causal if later else everything)
    output = ours(x, ours.project(x), None if masks == "none" else mask.dense(6, 6, batch=3))
    torch.testing.assert_close(output, expected)
    (expected * weighting).sum().backward()
    (output * weighting).sum().backward()
    check_gradients(theirs, ours, copy_attention)


def test_cross_attention_is_that_of_torch() -> None:
    theirs, ours = pair(8, 4)
    x = torch.randn(3, 4, 8, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(3, 6, 8, dtype=torch.float64, requires_grad=True)
    weighting = torch.randn(3, 4, 8, dtype=torch.float64)
    expected, _ = theirs(x, memory, memory, key_padding_mask=~VALID)
    expected_gradients = torch.autograd.grad(
        (expected * weighting).sum(), (x, memory, *theirs.parameters())
    )
    for parameter, gradient in zip(theirs.parameters(), expected_gradients[2:], strict=True):
        parameter.grad = gradient
    output = ours(x, ours.project(memory), padding_mask(VALID).dense(1, 6, batch=3))
    (output * weighting).sum().backward()
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(x.grad, expected_gradients[0])
    torch.testing.assert_close(memory.grad, expected_gradients[1])
    check_gradients(theirs, ours, copy_attention)


def test_weights_are_those_of_torch() -> None:
    theirs, ours = pair(8, 2)
    x = torch.randn(3, 6, 8, dtype=torch.float64)
    seen: list[Tensor] = []
    ours.observe = seen.append
    ours(x, ours.project(x), padding_mask(VALID).dense(1, 6, batch=3))
    _, expected = theirs(x, x, x, key_padding_mask=~VALID, average_attn_weights=False)
    torch.testing.assert_close(seen[0], expected)


def test_heads_of_any_width_are_concatenated() -> None:
    """Keys of width 3 and values of width 5, neither d_model / heads; written out head by head."""
    ours = MultiHeadAttention(8, 2, d_key=3, d_value=5).double()
    nn.init.normal_(ours.key_value.bias)
    x, memory = torch.randn(2, 4, 8).double(), torch.randn(2, 6, 8).double()
    projected = ours.project(memory)
    assert projected.keys.shape == (2, 2, 6, 3)
    assert projected.values.shape == (2, 2, 6, 5)
    heads = []
    for h in range(2):
        query = x @ ours.query.weight[3 * h : 3 * h + 3].T
        # Keys come first: 2 heads of 3, then values: 2 heads of 5.
        k, v = slice(3 * h, 3 * h + 3), slice(6 + 5 * h, 11 + 5 * h)
        key = memory @ ours.key_value.weight[k].T + ours.key_value.bias[k]
        value = memory @ ours.key_value.weight[v].T + ours.key_value.bias[v]
        heads.append((query @ key.transpose(1, 2) / 3**0.5).softmax(-1) @ value)
    expected = torch.cat(heads, -1) @ ours.output.weight.T
    torch.testing.assert_close(ours(x, projected), expected)


def grouped_and_plain(heads: int, kv_heads: int) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    """Attention whose neighbouring heads share keys and values, and the same with all copied."""
    torch.manual_seed(kv_heads)
    grouped = MultiHeadAttention(8, heads, d_key=3, d_value=5, kv_heads=kv_heads).double()
    plain = MultiHeadAttention(8, heads, d_key=3, d_value=5).double()
    randomise(grouped)
    for name, parameter in plain.named_parameters():
        shared = grouped.get_parameter(name).detach()
        if name.startswith("key_value"):
            shared = for_every_head(shared, kv_heads, heads // kv_heads)
        parameter.data.copy_(shared)
    return grouped, plain


def for_every_head(packed: Tensor, kv_heads: int, shared: int) -> Tensor:
    """W_K of each group for each of its heads, one after the other, then W_V."""
    keys, values = packed[: 3 * kv_heads], packed[3 * kv_heads :]
    of_heads = [keys[3 * (h // shared) :][:3] for h in range(kv_heads * shared)]
    return torch.cat([*of_heads, *(values[5 * (h // shared) :][:5] for h in range(len(of_heads)))])


@pytest.mark.parametrize("backend", [explicit, sdpa])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (4, 1), (6, 2)])
def test_heads_of_a_group_share_keys_and_values(
    heads: int, kv_heads: int, backend: Callable
) -> None:
    """Ainslie et al. 2023, section 2.2: neighbours are a group. Gradients of a group add up."""
    grouped, plain = grouped_and_plain(heads, kv_heads)
    grouped.backend = plain.backend = backend
    x = torch.randn(3, 6, 8, dtype=torch.float64)
    weighting = torch.randn(3, 6, 8, dtype=torch.float64)
    mask = (causal & padding_mask(VALID)).dense(6, 6)
    outputs = [module(x, module.project(x), mask) for module in (grouped, plain)]
    torch.testing.assert_close(*outputs, rtol=1e-12, atol=1e-12)
    one_by_one = [
        grouped(x[:, 5:], grouped.project(x), mask[:, :, 5:], offset=5),
        outputs[1][:, 5:],
    ]
    torch.testing.assert_close(*one_by_one, rtol=1e-12, atol=1e-12)
    for output in outputs:
        (output * weighting).sum().backward()
    for name, parameter in grouped.named_parameters():
        shared = plain.get_parameter(name)
        if not name.startswith("key_value"):
            torch.testing.assert_close(parameter.grad, shared.grad)
            continue
        # What copying adds up: the gradient of a sum over the heads of each group.
        leaf = parameter.detach().clone().requires_grad_()
        copied = for_every_head(leaf, kv_heads, heads // kv_heads)
        (expected,) = torch.autograd.grad(copied, leaf, shared.grad)
        torch.testing.assert_close(parameter.grad, expected)


def test_keys_that_all_heads_share_are_not_copied() -> None:
    shared = MultiHeadAttention(8, 4, d_key=2, d_value=2, kv_heads=1)
    keys = shared.project(torch.randn(2, 5, 8)).keys
    assert shared._for_each_head(keys).data_ptr() == keys.data_ptr()


def test_groups_of_unequal_size_are_refused() -> None:
    with pytest.raises(ValueError, match="4 heads cannot share 3 keys and values evenly"):
        MultiHeadAttention(8, 4, d_key=2, d_value=2, kv_heads=3)


@pytest.mark.parametrize("kv_heads", [None, 1])
def test_a_sequence_attends_to_one_of_another_length_and_width(kv_heads: int | None) -> None:
    """Memory of width 11, projected by hand to what attention of width 8 is given."""
    ours = MultiHeadAttention(8, 2, d_key=3, d_value=5, d_memory=11, kv_heads=kv_heads).double()
    randomise(ours)
    x, memory = torch.randn(3, 4, 8).double(), torch.randn(3, 6, 11).double().requires_grad_()
    projected = memory @ ours.key_value.weight.T + ours.key_value.bias
    groups = kv_heads or 2
    contexts = []
    for h in range(2):
        group = h if groups == 2 else 0
        query = x @ ours.query.weight[3 * h :][:3].T + ours.query.bias[3 * h :][:3]
        key = projected[..., 3 * group :][..., :3]
        value = projected[..., 3 * groups + 5 * group :][..., :5]
        scores = (query @ key.mT / 3**0.5).masked_fill(~VALID[:, None], -torch.inf)
        contexts.append(scores.softmax(-1) @ value)
    expected = ours.output(torch.cat(contexts, dim=-1))
    found = ours(x, ours.project(memory), padding_mask(VALID).dense(1, 6))
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(y.square().sum(), memory)[0] for y in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_each_matrix_is_glorot_uniform_by_its_own_fans() -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(96, 4, d_key=16, d_value=48)
    keys, values = ours.key_value.weight.split((64, 192))
    for weight in (ours.query.weight, keys, values, ours.output.weight):
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.99 * bound < weight.abs().max() <= bound
        assert 0.95 < weight.var() / (bound**2 / 3) < 1.05
    for layer in (ours.query, ours.key_value, ours.output):
        assert (layer.bias == 0).all()


def test_the_output_matrix_begins_smaller_by_its_gain() -> None:
    torch.manual_seed(0)
    whole = MultiHeadAttention(16, 2, d_key=8, d_value=8)
    torch.manual_seed(0)
    half = MultiHeadAttention(16, 2, d_key=8, d_value=8, output_gain=0.5)
    torch.testing.assert_close(half.output.weight, whole.output.weight / 2)
    assert torch.equal(half.query.weight, whole.query.weight)
    assert torch.equal(half.key_value.weight, whole.key_value.weight)


def test_attention_dropout_acts_in_training_only() -> None:
    ours = MultiHeadAttention(8, 2, d_key=4, d_value=4, dropout=0.5)
    x = torch.randn(2, 6, 8)
    memory = ours.project(x)
    torch.manual_seed(0)
    first, second = ours(x, memory), ours(x, memory)
    assert not torch.allclose(first, second)
    ours.eval()
    assert torch.equal(ours(x, memory), ours(x, memory))


@pytest.mark.parametrize("start", [0, 7])
@pytest.mark.parametrize("rotate", [None, lambda x, start: x * (start + 2)])
def test_packed_keys_and_values_are_those_of_project(rotate: Callable | None, start: int) -> None:
    ours = MultiHeadAttention(8, 4, d_key=3, d_value=5, kv_heads=2, rotate=rotate)
    memory = torch.randn(2, 6, 8)
    expected, packed = ours.project(memory, start), ours.packed(memory, start)
    assert packed.shape == (2, 6, 2 * (3 + 5))
    for found, part in zip(ours.unpacked(packed), expected, strict=True):
        assert torch.equal(found, part)
