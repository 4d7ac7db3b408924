"""Hugging Face's Marian beside ours: the same shape, and the same weights."""

import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel

from crosshead.attention.multihead import MultiHeadAttention
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.vocabulary import EOS, PAD

POSITIONS = 64
"""As far as theirs tabulates its sinusoids; ours have no end."""


def marian_config(config: TransformerConfig, vocabulary: int) -> MarianConfig:
    """The configuration of a Marian of the same shape, with our special ids and nothing forced."""
    return MarianConfig(
        vocab_size=vocabulary,
        d_model=config.d_model,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        encoder_attention_heads=config.heads,
        decoder_attention_heads=config.heads,
        encoder_ffn_dim=config.d_ff,
        decoder_ffn_dim=config.d_ff,
        activation_function=config.activation,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.activation_dropout,
        max_position_embeddings=POSITIONS,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
    )


@torch.no_grad()
def copy_marian(theirs: MarianMTModel, ours: Transformer) -> None:
    """Every weight of theirs to its place in ours (three-way tied, with an output bias)."""
    ours.projection.weight.copy_(theirs.model.shared.weight)
    ours.projection.bias.copy_(theirs.final_logits_bias[0])
    encoder, decoder = theirs.model.encoder, theirs.model.decoder
    for layer, mine in zip(encoder.layers, ours.encoder.layers, strict=True):
        _copy_attention(layer.self_attn, mine.attention)
        _copy_same(layer.self_attn_layer_norm, mine.add_norm_attention.norm)
        _copy_same(layer.fc1, mine.feedforward.inner)
        _copy_same(layer.fc2, mine.feedforward.outer)
        _copy_same(layer.final_layer_norm, mine.add_norm_feedforward.norm)
    for layer, mine in zip(decoder.layers, ours.decoder.layers, strict=True):
        _copy_attention(layer.self_attn, mine.self_attention)
        _copy_same(layer.self_attn_layer_norm, mine.add_norm_self.norm)
        _copy_attention(layer.encoder_attn, mine.cross_attention)
        _copy_same(layer.encoder_attn_layer_norm, mine.add_norm_cross.norm)
        _copy_same(layer.fc1, mine.feedforward.inner)
        _copy_same(layer.fc2, mine.feedforward.outer)
        _copy_same(layer.final_layer_norm, mine.add_norm_feedforward.norm)


def _copy_attention(theirs: nn.Module, ours: MultiHeadAttention) -> None:
    _copy_same(theirs.q_proj, ours.query)
    _copy_same(theirs.out_proj, ours.output)
    ours.key_value.weight.copy_(torch.cat((theirs.k_proj.weight, theirs.v_proj.weight)))
    ours.key_value.bias.copy_(torch.cat((theirs.k_proj.bias, theirs.v_proj.bias)))


def _copy_same(theirs: nn.Module, ours: nn.Module) -> None:
    ours.weight.copy_(theirs.weight)
    ours.bias.copy_(theirs.bias)
