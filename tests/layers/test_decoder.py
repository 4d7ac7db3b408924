import pytest
import torch
from torch import Tensor, nn

from crosshead.attention.kv_cache import DecodingCache, NoCache
from crosshead.attention.masks import causal, padding_mask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.addnorm import ADD_NORM
from crosshead.layers.decoder import Decoder, DecoderLayer
from crosshead.layers.feedforward import FeedForward
from tests.attention.torch_weights import check_gradients, copy_decoder, randomise

D_MODEL, HEADS, D_FF, LAYERS = 8, 2, 12, 3
VALID = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def decoder(kind: str) -> Decoder:
    def attention() -> MultiHeadAttention:
        return MultiHeadAttention(D_MODEL, HEADS, d_key=D_MODEL // HEADS, d_value=D_MODEL // HEADS)

    def layer() -> DecoderLayer:
        first, second, third = (ADD_NORM[kind](D_MODEL, 0.0, 1e-5) for _ in range(3))
        return DecoderLayer(
            attention(), attention(), FeedForward(D_MODEL, D_FF), (first, second, third)
        )

    norm = nn.Identity() if kind == "post" else nn.LayerNorm(D_MODEL)
    return Decoder([layer() for _ in range(LAYERS)], norm).double()


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


def run(ours: Decoder, x: Tensor, memory: Tensor) -> Tensor:
    length = x.shape[1]
    return ours(
        x, [NoCache()] * LAYERS, ours.project_memory(memory),
        causal.dense(length, length), padding_mask(VALID).dense(1, 5, batch=2),
    )  # fmt: skip


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
    output = run(ours, x, memory)
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
    copies = ours(
        x, [NoCache()] * LAYERS, ours.project_memory(memory.repeat_interleave(3, 0)),
        causal.dense(4, 4), padding_mask(VALID.repeat_interleave(3, 0)).dense(1, 5, batch=6),
    )  # fmt: skip
    memories, mask = ours.project_memory(memory), padding_mask(VALID).dense(1, 5, batch=2)
    together = ours(x, [NoCache()] * LAYERS, memories, causal.dense(4, 4), mask)
    torch.testing.assert_close(together, copies)
    caches = [DecodingCache() for _ in range(LAYERS)]
    for t in range(4):
        step = ours(x[:, t : t + 1], caches, memories, None, mask)
        torch.testing.assert_close(step[:, 0], copies[:, t])


def test_every_layer_needs_its_past_and_its_memory() -> None:
    ours = decoder("post")
    memories = ours.project_memory(torch.randn(2, 5, D_MODEL, dtype=torch.float64))
    assert len(memories) == LAYERS
    with pytest.raises(ValueError, match="shorter"):
        ours(torch.randn(2, 1, D_MODEL).double(), [NoCache()] * LAYERS, memories[:-1], None, None)
