"""The weights and gradients of PyTorch's own attention, encoder and decoder, in our modules."""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import nn

from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.decoder import DecoderLayer
from crosshead.layers.encoder import EncoderLayer
from crosshead.layers.layer_stack import LayerStack


@torch.no_grad()
def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    """Their three input projections, packed or not, into our one and two."""
    if theirs.in_proj_weight is None:
        query, key, value = theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight
    else:
        query, key, value = theirs.in_proj_weight.chunk(3)
    query_bias, key_bias, value_bias = theirs.in_proj_bias.chunk(3)
    ours.query.weight.copy_(query)
    ours.query.bias.copy_(query_bias)
    ours.key_value.weight.copy_(torch.cat((key, value)))
    ours.key_value.bias.copy_(torch.cat((key_bias, value_bias)))
    copy_same(theirs.out_proj, ours.output)


@torch.no_grad()
def copy_same(theirs: nn.Module, ours: nn.Module) -> None:
    """Weight and bias of a linear layer or a norm."""
    ours.weight.copy_(theirs.weight)
    ours.bias.copy_(theirs.bias)


def copy_encoder_layer(theirs: nn.TransformerEncoderLayer, ours: EncoderLayer) -> None:
    copy_attention(theirs.self_attn, ours.attention)
    copy_same(theirs.linear1, ours.feedforward.inner)
    copy_same(theirs.linear2, ours.feedforward.outer)
    copy_same(theirs.norm1, ours.add_norm_attention.norm)
    copy_same(theirs.norm2, ours.add_norm_feedforward.norm)


def copy_decoder_layer(theirs: nn.TransformerDecoderLayer, ours: DecoderLayer) -> None:
    copy_attention(theirs.self_attn, ours.self_attention)
    copy_attention(theirs.multihead_attn, ours.cross_attention)
    copy_same(theirs.linear1, ours.feedforward.inner)
    copy_same(theirs.linear2, ours.feedforward.outer)
    copy_same(theirs.norm1, ours.add_norm_self.norm)
    copy_same(theirs.norm2, ours.add_norm_cross.norm)
    copy_same(theirs.norm3, ours.add_norm_feedforward.norm)


def copy_encoder(theirs: nn.TransformerEncoder, ours: LayerStack[EncoderLayer]) -> None:
    for their_layer, our_layer in zip(theirs.layers, ours.layers, strict=True):
        copy_encoder_layer(their_layer, our_layer)
    if theirs.norm is not None:
        copy_same(theirs.norm, ours.norm)


def copy_decoder(theirs: nn.TransformerDecoder, ours: LayerStack[DecoderLayer]) -> None:
    for their_layer, our_layer in zip(theirs.layers, ours.layers, strict=True):
        copy_decoder_layer(their_layer, our_layer)
    if theirs.norm is not None:
        copy_same(theirs.norm, ours.norm)


def randomise(module: nn.Module) -> None:
    """Draw biases and norms too, which start as constants and would hide a mistake."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.copy_(torch.randn_like(parameter) * 0.3 + parameter)


def check_gradients(
    theirs: nn.Module, ours: nn.Module, copy: Callable[[nn.Module, nn.Module], None]
) -> None:
    """The gradient of every parameter of ours is theirs, put in its place by `copy`.

    Their weights are overwritten with their gradients.
    """
    expected = deepcopy(ours)
    with torch.no_grad():
        for parameter in expected.parameters():
            parameter.fill_(torch.nan)  # a parameter that `copy` forgets is noticed
        for parameter in theirs.parameters():
            parameter.copy_(parameter.grad)
    copy(theirs, expected)
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    for name, parameter in expected.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.detach(), msg=name)
