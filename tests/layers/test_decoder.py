from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from crosshead.attention.kv_cache import DecodingCache, KeyValues, KVCache, NoCache
from crosshead.attention.masks import causal, padding_mask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.addnorm import ADD_NORM
from crosshead.layers.decoder import DecoderLayer
from crosshead.layers.feedforward import FeedForward
from crosshead.layers.layer_stack import LayerStack
from tests.attention.torch_weights import check_gradients, copy_decoder, randomise

D_MODEL, HEADS, D_FF, LAYERS = 8, 2, 12, 3
VALID = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def decoder(kind: str) -> LayerStack[DecoderLayer]:
    def attention() -> MultiHeadAttention:
        return MultiHeadAttention(D_MODEL, HEADS, d_key=D_MODEL // HEADS, d_value=D_MODEL // HEADS)

    def layer() -> DecoderLayer:
        first, second, third = (ADD_NORM[kind](D_MODEL, 0.0, 1e-5) for _ in range(3))
        return DecoderLayer(
            attention(), attention(), FeedForward(D_MODEL, D_FF), (first, second, third)
        )

    norm = nn.Identity() if kind == "post" else nn.LayerNorm(D_MODEL)
    return LayerStack([layer() for _ in range(LAYERS)], norm).double()


def torch_decoder(kind: str) -> nn.TransformerDecoder:
    layer = nn.TransformerDecoderLayer(
        D_MODEL, HEADS, D_FF, dropout=0.0, batch_first=True, norm_first=kind == "pre"
    )
    norm = None if kind == "post" else nn.LayerNorm(D_MODEL)
    theirs = nn.TransformerDecoder(layer, LAYERS, norm).double()
    for parameter in theirs.parameters():  # the layers begin as copies of one another
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    randomise(theirs)
    return theirs


def project(ours: LayerStack[DecoderLayer], memory: Tensor) -> list[KeyValues]:
    return [layer.project_memory(memory) for layer in ours.layers]


def run(
    ours: LayerStack[DecoderLayer],
    x: Tensor,
    memories: Sequence[KeyValues],
    mask: Tensor | None,
    memory_mask: Tensor,
    caches: Sequence[KVCache] = (NoCache(),) * LAYERS,
) -> Tensor:
    for layer, cache, memory in zip(ours.layers, caches, memories, strict=True):
        x = layer(x, cache, memory, mask, memory_mask)
    output: Tensor = ours.norm(x)
    return output


@pytest.mark.parametrize("kind", ["post", "pre"])
def test_it_is_the_decoder_of_torch(kind: str) -> None:
    torch.manual_seed(0)
    theirs, ours = torch_decoder(kind), decoder(kind)
    copy_decoder(theirs, ours)
    x = torch.randn(2, 4, D_MODEL, dtype=torch.float64)
    memory = torch.randn(2, 5, D_MODEL, dtype=torch.float64, requires_grad=True)
    weighting = torch.randn(2, 4, D_MODEL, dtype=torch.float64)
    expected = theirs(x, memory, tgt_mask=~causal.dense(4, 4)[0, 0], memory_key_padding_mask=~VALID)
    (expected * weighting).sum().backward()
    expected_gradient, memory.grad = memory.grad, None
    valid = padding_mask(VALID).dense(1, 5, batch=2)
    output = run(ours, x, project(ours, memory), causal.dense(4, 4), valid)
    (output * weighting).sum().backward()
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(memory.grad, expected_gradient)
    check_gradients(theirs, ours, copy_decoder)


def test_rows_of_a_sentence_query_one_memory_together() -> None:
    """Six rows over two sentences equal six rows over six copies, in one step and in several."""
    torch.manual_seed(1)
    ours = decoder("post").requires_grad_(False)
    memory = torch.randn(2, 5, D_MODEL, dtype=torch.float64)
    x = torch.randn(6, 4, D_MODEL, dtype=torch.float64)
    copies = run(
        ours, x, project(ours, memory.repeat_interleave(3, 0)),
        causal.dense(4, 4), padding_mask(VALID.repeat_interleave(3, 0)).dense(1, 5, batch=6),
    )  # fmt: skip
    memories, mask = project(ours, memory), padding_mask(VALID).dense(1, 5, batch=2)
    together = run(ours, x, memories, causal.dense(4, 4), mask)
    torch.testing.assert_close(together, copies)
    caches = [DecodingCache() for _ in range(LAYERS)]
    for t in range(4):
        step = run(ours, x[:, t : t + 1], memories, None, mask, caches)
        torch.testing.assert_close(step[:, 0], copies[:, t])
