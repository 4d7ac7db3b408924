import pytest
import torch
from torch import Tensor, nn

from crosshead.attention.masks import padding_mask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.addnorm import ADD_NORM
from crosshead.layers.encoder import EncoderLayer
from crosshead.layers.feedforward import FeedForward
from crosshead.layers.layer_stack import LayerStack
from tests.attention.torch_weights import check_gradients, copy_encoder, randomise

D_MODEL, HEADS, D_FF, LAYERS = 8, 2, 12, 3
VALID = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def encoder(kind: str) -> LayerStack[EncoderLayer]:
    def layer() -> EncoderLayer:
        width = D_MODEL // HEADS
        return EncoderLayer(
            MultiHeadAttention(D_MODEL, HEADS, d_key=width, d_value=width),
            FeedForward(D_MODEL, D_FF),
            (ADD_NORM[kind](D_MODEL, 0.0, 1e-5), ADD_NORM[kind](D_MODEL, 0.0, 1e-5)),
        )

    norm = nn.Identity() if kind == "post" else nn.LayerNorm(D_MODEL)
    return LayerStack([layer() for _ in range(LAYERS)], norm).double()


def run(ours: LayerStack[EncoderLayer], x: Tensor, mask: Tensor) -> Tensor:
    for layer in ours.layers:
        x = layer(x, mask)
    output: Tensor = ours.norm(x)
    return output


def torch_encoder(kind: str) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_FF, dropout=0.0, batch_first=True, norm_first=kind == "pre"
    )
    norm = None if kind == "post" else nn.LayerNorm(D_MODEL)
    theirs = nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False).double()
    for parameter in theirs.parameters():  # the layers begin as copies of one another
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    randomise(theirs)
    return theirs


@pytest.mark.parametrize("kind", ["post", "pre"])
def test_it_is_the_encoder_of_torch(kind: str) -> None:
    torch.manual_seed(0)
    theirs, ours = torch_encoder(kind), encoder(kind)
    copy_encoder(theirs, ours)
    x = torch.randn(2, 5, D_MODEL, dtype=torch.float64)
    weighting = torch.randn(2, 5, D_MODEL, dtype=torch.float64) * VALID[:, :, None]
    expected = theirs(x, src_key_padding_mask=~VALID)
    output = run(ours, x, padding_mask(VALID).dense(1, 5, batch=2))
    torch.testing.assert_close(output[VALID], expected[VALID])
    (expected * weighting).sum().backward()
    (output * weighting).sum().backward()
    check_gradients(theirs, ours, copy_encoder)


@pytest.mark.parametrize("kind", ["post", "pre"])
def test_padding_changes_nothing(kind: str) -> None:
    torch.manual_seed(1)
    ours, x = encoder(kind), torch.randn(1, 3, D_MODEL, dtype=torch.float64)
    padded = torch.cat((x, torch.randn(1, 4, D_MODEL, dtype=torch.float64)), dim=1)
    valid = torch.arange(7)[None] < 3
    short = run(ours, x, padding_mask(torch.ones(1, 3, dtype=torch.bool)).dense(1, 3))
    long = run(ours, padded, padding_mask(valid).dense(1, 7))
    torch.testing.assert_close(long[:, :3], short)


def test_without_positions_the_order_does_not_matter() -> None:
    """Self-attention alone is permutation-equivariant: why section 3.5 adds positions."""
    torch.manual_seed(2)
    ours, x = encoder("post"), torch.randn(1, 5, D_MODEL, dtype=torch.float64)
    everything = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    order = torch.tensor([3, 1, 4, 0, 2])
    torch.testing.assert_close(
        run(ours, x[:, order], everything), run(ours, x, everything)[:, order]
    )
