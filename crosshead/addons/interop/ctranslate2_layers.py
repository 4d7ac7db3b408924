"""The layers of a Transformer as CTranslate2's specification of them.

Axes: `H` heads, `E` width of a head in CTranslate2, `N` positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from crosshead.addons.interop.ctranslate2_library import library
from crosshead.addons.interop.verify import longest_output
from crosshead.addons.interop.weights import CTRANSLATE2, Place, all_parameters, to_foreign
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.relative import ALiBi, Biased, ShawKeys, ShawValues, T5Buckets
from crosshead.attention.scores import General
from crosshead.bundle.text_bundle import TextBundle
from crosshead.layers.embeddings import Embeddings, LearnedPositions
from crosshead.models.language import LanguageConfig
from crosshead.models.stack import StackConfig

MATRICES = (
    "encoder/embeddings_0/weight",
    "decoder/embeddings/weight",
    "decoder/projection/weight",
)
BIAS = "decoder/projection/bias"
"""CTranslate2's names of the matrices of source, target and output, and of the output bias."""

ACTIVATIONS = {0: "relu", 1: "gelu-tanh", 2: "swish", 3: "gelu"}
"""Activations by CTranslate2's numbers."""

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
    numbered = {ours: number for number, ours in ACTIVATIONS.items()}
    return {
        "pre_norm": config.norm == "pre",
        "activation": kinds(numbered[config.activation]),
        "relative_position": config.positions == "shaw",
        "relative_attention_bias": config.positions in ("t5", "alibi"),
        "rotary_dim": shape.d_key if config.positions == "rotary" else None,
        "rotary_interleave": False,
        "num_heads_kv": None if shape.kv_heads == shape.heads else shape.kv_heads,
        "head_dim": None if shape.width * shape.heads == config.d_model else shape.width,
    }


def language_places(config: LanguageConfig) -> list[Place]:
    """Return all parameters of a language model, which is a decoder in CTranslate2."""
    names = {
        each: getattr(CTRANSLATE2, each).replace("{stack}", "decoder")
        for each in ("layer", "final")
    }
    return [
        *replace(CTRANSLATE2, **names).places({"stack": config.layers}, config.norm),
        Place(("embeddings.weight",), (MATRICES[1],)),
        Place(("projection.weight",), (MATRICES[2],)),
        Place(("projection.bias",), (BIAS,)),
    ]


def fill(
    spec: Any,
    bundle: TextBundle,
    places: Sequence[Place],
    embeddings: Mapping[str, Embeddings],
    bias: Tensor,
) -> None:
    """Fill the specification of a model with its weights.

    `embeddings` are those of each side in CTranslate2, and `bias` is that of the output.
    """
    model = bundle.model
    assert isinstance(model.config, StackConfig)
    shape = Shape.of(model.config, positions_written(bundle))
    weights = {**all_parameters(model), "projection.bias": bias}
    named = {place.ours[0]: place.theirs[0] for place in places}
    found: dict[str, Any] = {}
    for name, mine in model.named_modules():
        if isinstance(mine, MultiHeadAttention):
            weights |= {f"{name}.{end}": each for end, each in rewritten(mine, shape).items()}
            prefix = named[f"{name}.query.weight"].rsplit("/", 2)[0]
            scores = _scores(mine, shape, causal=not prefix.startswith("encoder"))
            found |= {f"{prefix}/{end}": each for end, each in scores.items()}
    for side, mine in embeddings.items():
        found[f"{side}/scale_embeddings"] = mine.scale != 1.0  # true stands for sqrt(d_model)
        table = position_table(mine, shape.positions)
        empty = np.zeros((shape.positions, model.config.d_model), np.float32)
        found[f"{side}/position_encodings/encodings"] = empty if table is None else table
    found |= {name: numbers(each) for name, each in to_foreign(places, weights).items()}

    def put(part: Any, name: str, value: Any) -> None:
        if name in found:
            setattr(part, name.rpartition("/")[2], found[name])

    library().specs.model_spec.visit_spec(spec, put)


def position_table(embeddings: Embeddings, rows: int) -> np.ndarray | None:
    """Return the table of added positions, "N D"; None if there are none."""
    positions = embeddings.positions
    if positions is None:
        return None
    if isinstance(positions, LearnedPositions):
        return numbers(positions.table)
    return numbers(positions(0, rows))


def _scores(mine: MultiHeadAttention, shape: Shape, *, causal: bool) -> dict[str, Any]:
    """Return how an attention scores: the factor of its products, and its tables of distances."""
    score = mine.score.score if isinstance(mine.score, Biased) else mine.score
    scale = 1.0 if isinstance(score, General) else getattr(score, "scale", None)
    found: dict[str, Any] = {
        "queries_scale": np.float32(shape.d_key**-0.5 if scale is None else scale)
    }
    if isinstance(mine.score, ShawKeys):
        assert isinstance(mine.combine, ShawValues)
        found["relative_position_keys"] = numbers(_widened(mine.score.vectors.table, shape.width))
        found["relative_position_values"] = numbers(
            _widened(mine.combine.vectors.table, shape.width)
        )
    elif isinstance(mine.score, Biased):
        table, furthest = _bias_table(mine.score.bias, shape.positions, causal=causal)
        found["relative_attention_bias"] = table
        found["relative_attention_max_distance"] = np.dtype("int32").type(furthest)
    return found


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


def rewritten(mine: MultiHeadAttention, shape: Shape) -> dict[str, Tensor]:
    """Return the weights of an attention whose heads have one width for keys and values.

    The matrix of the score `general` is multiplied into the queries.
    """
    score = mine.score.score if isinstance(mine.score, Biased) else mine.score
    found = {}
    for end in ("weight", "bias"):
        query = getattr(mine.query, end).detach().unflatten(0, (shape.heads, shape.d_key))
        if isinstance(score, General):
            matrix = score.weight.detach().double()
            query = torch.einsum("hea,he...->ha...", matrix, query.double()).float()
        widths = (shape.d_key, shape.d_value)
        both = getattr(mine.key_value, end).detach()
        parts = both.split([shape.kv_heads * each for each in widths])
        heads = [part.unflatten(0, (-1, each)) for part, each in zip(parts, widths, strict=True)]
        found[f"query.{end}"] = _widened(query, shape.width, 1).flatten(0, 1)
        found[f"key_value.{end}"] = torch.cat(
            [_widened(each, shape.width, 1).flatten(0, 1) for each in heads]
        )
    output = mine.output.weight.detach().unflatten(1, (shape.heads, shape.d_value))
    return {**found, "output.weight": _widened(output, shape.width, 2).flatten(1)}


def _widened(x: Tensor, width: int, axis: int = 1) -> Tensor:
    """Return a tensor with zeros at the end of an axis, so that it has this width."""
    shape = [*x.shape]
    shape[axis] = width - x.shape[axis]
    return torch.cat([x, x.new_zeros(shape)], axis)


def numbers(x: Tensor) -> np.ndarray:
    """Return a copy of a tensor in float32; CTranslate2 quantises weights in place."""
    return np.array(x.detach().float().numpy(), order="C")
