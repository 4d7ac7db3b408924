"""CTranslate2 made to do the same work: our weights in its format."""

from pathlib import Path

import torch
from ctranslate2.converters import Converter
from ctranslate2.specs import attention_spec, common_spec, transformer_spec
from peers import check_comparable, positions_of
from torch import nn

from crosshead.attention.multihead import MultiHeadAttention
from crosshead.models.transformer import Transformer
from crosshead.vocabulary import BOS, EOS, UNK

ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "swish": common_spec.Activation.SWISH,
}


def write_ctranslate2(ours: Transformer, directory: Path) -> None:
    """Write `ours` as a CTranslate2 model whose tokens are the ids as text ("17")."""
    check_comparable(ours.config)
    _Converter(ours).convert(str(directory))


class _Converter(Converter):
    """From our weights to CTranslate2's specification of a Transformer."""

    def __init__(self, ours: Transformer) -> None:
        self._ours = ours

    def _load(self) -> transformer_spec.TransformerSpec:
        ours, config = self._ours, self._ours.config
        spec = transformer_spec.TransformerSpec.from_config(
            (config.encoder_layers, config.decoder_layers),
            config.heads,
            pre_norm=False,
            activation=ACTIVATIONS[config.activation],
        )
        weight, positions = ours.projection.weight.detach(), positions_of(config)
        spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = weight.numpy()
        spec.decoder.projection.weight = weight.numpy()
        for part in (spec.encoder, spec.decoder):
            part.scale_embeddings = True
            part.position_encodings.encodings = positions.numpy()
        for mine, layer in zip(ours.encoder.layers, spec.encoder.layer, strict=True):
            _spec_self_attention(layer.self_attention, mine.attention)
            _spec_norm(layer.self_attention.layer_norm, mine.add_norm_attention.norm)
            _spec_linear(layer.ffn.linear_0, mine.feedforward.inner)
            _spec_linear(layer.ffn.linear_1, mine.feedforward.outer)
            _spec_norm(layer.ffn.layer_norm, mine.add_norm_feedforward.norm)
        for mine, layer in zip(ours.decoder.layers, spec.decoder.layer, strict=True):
            _spec_self_attention(layer.self_attention, mine.self_attention)
            _spec_norm(layer.self_attention.layer_norm, mine.add_norm_self.norm)
            cross = mine.cross_attention
            _spec_linear(layer.attention.linear[0], cross.query)
            _spec_linear(layer.attention.linear[1], cross.key_value)
            _spec_linear(layer.attention.linear[2], cross.output)
            _spec_norm(layer.attention.layer_norm, mine.add_norm_cross.norm)
            _spec_linear(layer.ffn.linear_0, mine.feedforward.inner)
            _spec_linear(layer.ffn.linear_1, mine.feedforward.outer)
            _spec_norm(layer.ffn.layer_norm, mine.add_norm_feedforward.norm)
        tokens = [str(index) for index in range(len(weight))]
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)
        spec.config.unk_token = str(UNK)
        spec.config.bos_token = str(BOS)
        spec.config.eos_token = str(EOS)
        spec.config.decoder_start_token = str(config.start_token)
        spec.config.layer_norm_epsilon = config.norm_eps
        return spec


def _spec_self_attention(
    spec: attention_spec.MultiHeadAttentionSpec, ours: MultiHeadAttention
) -> None:
    parts = (ours.query, ours.key_value)
    spec.linear[0].weight = torch.cat([part.weight.detach() for part in parts]).numpy()
    spec.linear[0].bias = torch.cat([part.bias.detach() for part in parts]).numpy()
    _spec_linear(spec.linear[1], ours.output)


def _spec_linear(spec: common_spec.LinearSpec, ours: nn.Module) -> None:
    spec.weight, spec.bias = ours.weight.detach().numpy(), ours.bias.detach().numpy()


def _spec_norm(spec: common_spec.LayerNormSpec, ours: nn.Module) -> None:
    spec.gamma, spec.beta = ours.weight.detach().numpy(), ours.bias.detach().numpy()
