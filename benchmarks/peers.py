"""Hugging Face's Marian made to do the same work: our weights in it."""

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, MarianConfig, MarianMTModel

from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.positions import SinusoidalPositions
from crosshead.errors import UserError
from crosshead.models.stack import added_positions
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.vocabulary import BOS, EOS, PAD

POSITIONS = 1024
"""Positions that the peers' tables hold."""


def check_comparable(config: TransformerConfig) -> None:
    """Raise `UserError` for a model that Marian cannot be: both must be the same function."""
    wanted = {
        "norm": "post",
        "tie": "three-way",
        "output_bias": False,
        "d_key": None,
        "d_value": None,
        "norm_eps": 1e-5,
    }
    found = {key: getattr(config, key) for key in wanted}
    for key, value in wanted.items():
        if found[key] != value:
            raise UserError(
                f"Marian has model.{key} = {value!r}, found {found[key]!r}; "
                "compare a model of the shape of the presets"
            )
    if config.positions == "learned":
        raise UserError("Marian has fixed positions, found model.positions = 'learned'")


@torch.no_grad()
def marian_of(ours: Transformer, attention: str) -> MarianMTModel:
    """A Marian with the weights and the positions of `ours`, in evaluation mode.

    `attention` is `sdpa` or `eager`, as Hugging Face calls its implementations.
    """
    config = ours.config
    check_comparable(config)
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=ours.projection.weight.shape[0],
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
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=config.start_token,
            forced_eos_token_id=None,
            attn_implementation=attention,
        )
    )
    theirs.model.shared.weight.copy_(ours.projection.weight)
    encoder, decoder = theirs.model.encoder, theirs.model.decoder
    for part in (encoder, decoder):
        part.embed_positions.weight.copy_(positions_of(config))
    for mine, layer in zip(ours.encoder.layers, encoder.layers, strict=True):
        _fill_attention(layer.self_attn, mine.attention)
        _fill(layer.self_attn_layer_norm, mine.add_norm_attention.norm)
        _fill(layer.fc1, mine.feedforward.inner)
        _fill(layer.fc2, mine.feedforward.outer)
        _fill(layer.final_layer_norm, mine.add_norm_feedforward.norm)
    for mine, layer in zip(ours.decoder.layers, decoder.layers, strict=True):
        _fill_attention(layer.self_attn, mine.self_attention)
        _fill(layer.self_attn_layer_norm, mine.add_norm_self.norm)
        _fill_attention(layer.encoder_attn, mine.cross_attention)
        _fill(layer.encoder_attn_layer_norm, mine.add_norm_cross.norm)
        _fill(layer.fc1, mine.feedforward.inner)
        _fill(layer.fc2, mine.feedforward.outer)
        _fill(layer.final_layer_norm, mine.add_norm_feedforward.norm)
    theirs.generation_config = GenerationConfig(
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=config.start_token,
    )
    return theirs.eval()


def positions_of(config: TransformerConfig) -> Tensor:
    """The table of the model's fixed positions, as long as the peers' tables.

    Raises `UserError` for positions that are no such table: the peers have none of them.
    """
    positions = added_positions(config)
    if not isinstance(positions, SinusoidalPositions):
        raise UserError(f"positions {config.positions}: the peers know sinusoidal ones alone")
    return positions(0, POSITIONS)


def _fill_attention(theirs: nn.Module, ours: MultiHeadAttention) -> None:
    _fill(theirs.q_proj, ours.query)
    _fill(theirs.out_proj, ours.output)
    for part, projection in enumerate((theirs.k_proj, theirs.v_proj)):
        projection.weight.copy_(ours.key_value.weight.chunk(2)[part])
        projection.bias.copy_(ours.key_value.bias.chunk(2)[part])


def _fill(theirs: nn.Module, ours: nn.Module) -> None:
    theirs.weight.copy_(ours.weight)
    theirs.bias.copy_(ours.bias)
