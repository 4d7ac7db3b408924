"""The layers of a Transformer as CTranslate2's specification of them.

Axes: `H` heads, `E` width of a head in CTranslate2, `N` positions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from crosshead.addons.interop.ctranslate2_library import library
from crosshead.addons.interop.verify import longest_output
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.relative import ALiBi, Biased, ShawKeys, ShawValues, T5Buckets
from crosshead.attention.scores import General
from crosshead.bundle.text_bundle import TextBundle
from crosshead.layers.embeddings import Embeddings, LearnedPositions
from crosshead.layers.layer_stack import LayerStack
from crosshead.models.stack import StackConfig

FEWEST_POSITIONS = 1024
"""The positions that a written table covers at least: CTranslate2's default limit of inputs."""


def positions_written(bundle: TextBundle) -> int:
    """Return the number of positions of a written table: all that the model reads or produces."""
    return max(FEWEST_POSITIONS, bundle.config.longest_source + 1, longest_output(bundle) + 1)


@dataclass(frozen=True)
class Shape:
    """The shape of attention in CTranslate2.

    Attributes:
        heads: Number of heads.
        kv_heads: Heads of keys and values.
        d_key: Width of a head's queries and keys in the model.
        d_value: Width of a head's values in the model.
        positions: The number of positions of a written table, N.
    """

    heads: int
    kv_heads: int
    d_key: int
    d_value: int
    positions: int = FEWEST_POSITIONS

    @classmethod
    def of(cls, config: StackConfig, positions: int = FEWEST_POSITIONS) -> Self:
        """Return the shape of a configuration, with tables of some positions."""
        kv_heads = config.kv_heads or config.heads
        return cls(config.heads, kv_heads, config.key_width, config.value_width, positions)

    @property
    def width(self) -> int:
        """The width of a head's queries, keys and values in CTranslate2, E."""
        return max(self.d_key, self.d_value)


def specs(config: StackConfig, layers: tuple[int, int]) -> tuple[Any, Any]:
    """Return empty specifications of an encoder and of a decoder that attends to it."""
    transformer_spec = library().specs.transformer_spec
    settings = _settings(config)
    encoder = transformer_spec.TransformerEncoderSpec(layers[0], config.heads, **settings)
    decoder = transformer_spec.TransformerDecoderSpec(
        layers[1], config.heads, alignment_heads=config.heads, **settings
    )
    return encoder, decoder


def language_spec(config: StackConfig, layers: int) -> Any:
    """Return an empty specification of a decoder without a source."""
    return library().specs.transformer_spec.TransformerDecoderSpec(
        layers, config.heads, with_encoder_attention=False, **_settings(config)
    )


def _settings(config: StackConfig) -> dict[str, Any]:
    """Return the settings that the specifications of encoder and decoder share."""
    kinds = library().specs.common_spec.Activation
    shape = Shape.of(config)
    activations = {
        "relu": kinds.RELU,
        "gelu": kinds.GELU,
        "gelu-tanh": kinds.GELUTanh,
        "swish": kinds.SWISH,
    }
    return {
        "pre_norm": config.norm == "pre",
        "activation": activations[config.activation],
        "relative_position": config.positions == "shaw",
        "relative_attention_bias": config.positions in ("t5", "alibi"),
        "rotary_dim": shape.d_key if config.positions == "rotary" else None,
        "rotary_interleave": False,
        "num_heads_kv": None if shape.kv_heads == shape.heads else shape.kv_heads,
        "head_dim": None if shape.width * shape.heads == config.d_model else shape.width,
    }


def fill_encoder(spec: Any, stack: LayerStack[Any], embeddings: Embeddings, shape: Shape) -> None:
    """Fill the specification of an encoder."""
    _fill_ends(spec, spec.embeddings[0], stack, embeddings, shape)
    _fill_layers(spec, stack, shape, causal=False)


def fill_language_model(
    spec: Any, stack: LayerStack[Any], embeddings: Embeddings, shape: Shape
) -> None:
    """Fill the specification of a decoder without a source, without its output projection."""
    _fill_ends(spec, spec.embeddings, stack, embeddings, shape)
    _fill_layers(spec, stack, shape, causal=True)


def _fill_layers(spec: Any, stack: LayerStack[Any], shape: Shape, *, causal: bool) -> None:
    """Fill layers of self-attention and feed-forward network."""
    for layer, mine in zip(spec.layer, stack.layers, strict=True):
        fill_self_attention(layer.self_attention, mine.attention, shape, causal=causal)
        _fill_norm(layer.self_attention.layer_norm, mine.add_norm_attention.norm)
        _fill_feedforward(layer.ffn, mine)


def fill_decoder(spec: Any, stack: LayerStack[Any], embeddings: Embeddings, shape: Shape) -> None:
    """Fill the specification of a decoder, without its output projection."""
    _fill_ends(spec, spec.embeddings, stack, embeddings, shape)
    for layer, mine in zip(spec.layer, stack.layers, strict=True):
        fill_self_attention(layer.self_attention, mine.self_attention, shape, causal=True)
        _fill_norm(layer.self_attention.layer_norm, mine.add_norm_self.norm)
        _fill_cross_attention(layer.attention, mine.cross_attention, shape)
        _fill_norm(layer.attention.layer_norm, mine.add_norm_cross.norm)
        _fill_feedforward(layer.ffn, mine)


def _fill_ends(
    spec: Any, embedding_spec: Any, stack: LayerStack[Any], embeddings: Embeddings, shape: Shape
) -> None:
    """Fill the embeddings and positions before the layers, and the norm after them."""
    embedding_spec.weight = numbers(embeddings.weight)
    spec.scale_embeddings = embeddings.scale != 1.0  # true stands for sqrt(d_model)
    if hasattr(spec, "position_encodings"):
        table = position_table(embeddings, shape.positions)
        empty = np.zeros((shape.positions, embeddings.weight.shape[1]), np.float32)
        spec.position_encodings.encodings = empty if table is None else table
    if isinstance(stack.norm, nn.LayerNorm):
        _fill_norm(spec.layer_norm, stack.norm)


def position_table(embeddings: Embeddings, rows: int) -> np.ndarray | None:
    """Return the table of added positions, "N D"; None if there are none."""
    positions = embeddings.positions
    if positions is None:
        return None
    if isinstance(positions, LearnedPositions):
        return numbers(positions.table)
    return numbers(positions(0, rows))


def fill_self_attention(spec: Any, mine: MultiHeadAttention, shape: Shape, *, causal: bool) -> None:
    """Fill the specification of a self-attention."""
    query, keys_and_values = _queries(mine, shape), _keys_and_values(mine, shape)
    for name in ("weight", "bias"):
        both = [part[name] for part in (query, keys_and_values)]
        setattr(spec.linear[0], name, np.concatenate(both))
    _fill_output(spec.linear[1], mine, shape)
    _fill_score(spec, mine, shape)
    score = mine.score
    if isinstance(score, ShawKeys):
        assert isinstance(mine.combine, ShawValues)
        spec.relative_position_keys = _widened(score.vectors.table, 1, shape.width)
        spec.relative_position_values = _widened(mine.combine.vectors.table, 1, shape.width)
    elif isinstance(score, Biased):
        table, furthest = _bias_table(score.bias, shape.positions, causal=causal)
        spec.relative_attention_bias = table
        spec.relative_attention_max_distance = np.dtype("int32").type(furthest)


def _bias_table(bias: Any, positions: int, *, causal: bool) -> tuple[np.ndarray, int]:
    """Return T5's table of biases, "buckets H", and the distance of its last bucket.

    The table of ALiBi is exact for all distances between so many positions.
    """
    if isinstance(bias, T5Buckets):
        return numbers(bias.table.T), bias.furthest
    assert isinstance(bias, ALiBi)
    # T5 gives half of its buckets one distance each, so that this table needs twice as many.
    distances = torch.arange(2 * positions).clamp(max=positions)
    one_side = bias(distances).T
    table = numbers(one_side if causal else torch.cat((one_side, one_side)))
    return table, 4 * positions  # CTranslate2 puts larger distances into one bucket


def _fill_cross_attention(spec: Any, mine: MultiHeadAttention, shape: Shape) -> None:
    parts = (_queries(mine, shape), _keys_and_values(mine, shape))
    for linear, part in zip(spec.linear, parts, strict=False):
        linear.weight, linear.bias = part["weight"], part["bias"]
    _fill_output(spec.linear[2], mine, shape)
    _fill_score(spec, mine, shape)


def _fill_score(spec: Any, mine: MultiHeadAttention, shape: Shape) -> None:
    """Set the factor of the products of queries and keys."""
    score = mine.score.score if isinstance(mine.score, Biased) else mine.score
    scale = 1.0 if isinstance(score, General) else getattr(score, "scale", None)
    spec.queries_scale = np.float32(shape.d_key**-0.5 if scale is None else scale)


def _queries(mine: MultiHeadAttention, shape: Shape) -> dict[str, np.ndarray]:
    """Return weight and bias of the queries; the matrix of the score `general` is folded in."""
    score = mine.score.score if isinstance(mine.score, Biased) else mine.score

    def heads(x: Tensor) -> Tensor:
        x = x.unflatten(0, (shape.heads, shape.d_key))
        if isinstance(score, General):
            x = torch.einsum("hea,he...->ha...", score.weight.double(), x.double()).float()
        return x

    return _linear(mine.query, lambda x: _widened(heads(x), 1, shape.width))


def _keys_and_values(mine: MultiHeadAttention, shape: Shape) -> dict[str, np.ndarray]:
    """Return weight and bias of the keys, followed by those of the values."""

    def heads(x: Tensor) -> np.ndarray:
        keys, values = x.split((shape.kv_heads * shape.d_key, shape.kv_heads * shape.d_value))
        split = (keys.unflatten(0, (-1, shape.d_key)), values.unflatten(0, (-1, shape.d_value)))
        return np.concatenate([_widened(part, 1, shape.width) for part in split])

    return _linear(mine.key_value, heads)


def _linear(mine: nn.Linear, heads: Callable[[Tensor], np.ndarray]) -> dict[str, np.ndarray]:
    """Return weight and bias after a function that gives them an axis of heads: "H E ..."."""
    found = {"weight": heads(mine.weight.detach()), "bias": heads(mine.bias.detach())}
    return {name: each.reshape(-1, *each.shape[2:]) for name, each in found.items()}


def _fill_output(spec: Any, mine: MultiHeadAttention, shape: Shape) -> None:
    weight = mine.output.weight.detach().unflatten(1, (shape.heads, shape.d_value))
    spec.weight = _widened(weight, 2, shape.width).reshape(len(weight), -1)
    spec.bias = numbers(mine.output.bias)


def _fill_feedforward(spec: Any, layer: Any) -> None:
    _fill_linear(spec.linear_0, layer.feedforward.inner)
    _fill_linear(spec.linear_1, layer.feedforward.outer)
    _fill_norm(spec.layer_norm, layer.add_norm_feedforward.norm)


def _fill_linear(spec: Any, mine: nn.Linear) -> None:
    spec.weight, spec.bias = numbers(mine.weight), numbers(mine.bias)


def _fill_norm(spec: Any, mine: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = numbers(mine.weight), numbers(mine.bias)


def _widened(x: Tensor, axis: int, width: int) -> np.ndarray:
    """Return numbers with zeros at the end of an axis, so that it has this width."""
    missing = width - x.shape[axis]
    padding = [(0, missing if each == axis else 0) for each in range(x.dim())]
    return np.pad(numbers(x), padding)


def numbers(x: Tensor) -> np.ndarray:
    """Return a copy of a tensor in float32; CTranslate2 quantises weights in place."""
    return np.array(x.detach().float().numpy(), order="C")
