"""The layers of a Transformer as CTranslate2's specification of them.

Axes: `H` heads, `D` model width, `N` positions.
"""

import importlib
import logging
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosshead.addons.interop.ctranslate2_model import library
from crosshead.addons.interop.verify import longest_output
from crosshead.addons.interop.weights import (
    CTRANSLATE2,
    Place,
    all_parameters,
    to_foreign,
    translation_places,
)
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.relative import ALiBi, Biased, ShawKeys, ShawValues, T5Buckets
from crosshead.bundle.text_bundle import TextBundle
from crosshead.layers.embeddings import Embeddings, LearnedPositions
from crosshead.models.language import LanguageConfig
from crosshead.models.stack import StackConfig
from crosshead.models.transformer import TransformerConfig

logger = logging.getLogger(__name__)

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


def filled_spec(bundle: TextBundle, bias: Tensor) -> Any:
    """Return the specification of a model, filled with its weights and a bias of the output."""
    model: Any = bundle.model
    config = model.config
    assert isinstance(config, StackConfig)
    library()  # which chooses the products of bytes
    transformer_spec = importlib.import_module("ctranslate2.specs.transformer_spec")
    settings = _settings(config)
    if isinstance(config, TransformerConfig):
        encoder = transformer_spec.TransformerEncoderSpec(
            config.encoder_layers, config.heads, **settings
        )
        decoder = transformer_spec.TransformerDecoderSpec(
            config.decoder_layers,
            config.heads,
            alignment_layer=max(0, config.decoder_layers - 2),
            alignment_heads=1 if bundle.config.guided else config.heads,
            **settings,
        )
        spec = transformer_spec.TransformerSpec(encoder, decoder)
        places = translation_places(CTRANSLATE2, config, MATRICES, BIAS, (None, None))
        embeddings = {"encoder": model.source_embeddings, "decoder": model.target_embeddings}
    else:
        assert isinstance(config, LanguageConfig)
        decoder = transformer_spec.TransformerDecoderSpec(
            config.layers, config.heads, with_encoder_attention=False, **settings
        )
        spec = transformer_spec.TransformerDecoderModelSpec(decoder)
        places, embeddings = _language_places(config), {"decoder": model.embeddings}
    positions = positions_written(bundle)
    weights = {**all_parameters(model), "projection.bias": bias}
    named = {place.ours[0]: place.theirs[0] for place in places}
    found: dict[str, Any] = {}
    for name, mine in model.named_modules():
        if isinstance(mine, MultiHeadAttention):
            prefix = named[f"{name}.query.weight"].rsplit("/", 2)[0]
            scores = _scores(mine, config, positions, causal=not prefix.startswith("encoder"))
            found |= {f"{prefix}/{end}": each for end, each in scores.items()}
    for side, mine in embeddings.items():
        found[f"{side}/scale_embeddings"] = mine.scale != 1.0  # true stands for sqrt(d_model)
        table = position_table(mine, positions)
        empty = np.zeros((positions, config.d_model), np.float32)
        found[f"{side}/position_encodings/encodings"] = empty if table is None else table
    found |= {name: numbers(each) for name, each in to_foreign(places, weights).items()}

    def put(part: Any, name: str, value: Any) -> None:
        if name in found:
            setattr(part, name.rpartition("/")[2], found[name])

    importlib.import_module("ctranslate2.specs.model_spec").visit_spec(spec, put)
    return spec


def _settings(config: StackConfig) -> dict[str, Any]:
    """Return the settings that the specifications of encoder and decoder share."""
    kinds = importlib.import_module("ctranslate2.specs.common_spec").Activation
    numbered = {ours: number for number, ours in ACTIVATIONS.items()}
    return {
        "pre_norm": config.norm == "pre",
        "activation": kinds(numbered[config.activation]),
        "relative_position": config.positions == "shaw",
        "relative_attention_bias": config.positions in ("t5", "alibi"),
        "rotary_dim": config.key_width if config.positions == "rotary" else None,
        "rotary_interleave": False,
        "num_heads_kv": None if config.kv_heads == config.heads else config.kv_heads,
    }


def _language_places(config: LanguageConfig) -> list[Place]:
    """Return all parameters of a language model, which is a decoder in CTranslate2."""
    return [
        *CTRANSLATE2.places({"stack": config.layers}, config.norm),
        Place(("embeddings.weight",), (MATRICES[1],)),
        Place(("projection.weight",), (MATRICES[2],)),
        Place(("projection.bias",), (BIAS,)),
    ]


def position_table(embeddings: Embeddings, rows: int) -> np.ndarray | None:
    """Return the table of added positions, "N D"; None if there are none."""
    positions = embeddings.positions
    if positions is None:
        return None
    if isinstance(positions, LearnedPositions):
        return numbers(positions.table)
    return numbers(positions(0, rows))


def _scores(
    mine: MultiHeadAttention, config: StackConfig, positions: int, *, causal: bool
) -> dict[str, Any]:
    """Return how an attention scores: the factor of its products, and its tables of distances."""
    score = mine.score.score if isinstance(mine.score, Biased) else mine.score
    scale = getattr(score, "scale", None)
    found: dict[str, Any] = {
        "queries_scale": np.float32(config.key_width**-0.5 if scale is None else scale)
    }
    if isinstance(mine.score, ShawKeys):
        assert isinstance(mine.combine, ShawValues)
        for name, part in (("keys", mine.score), ("values", mine.combine)):
            found[f"relative_position_{name}"] = numbers(part.vectors.table)
    elif isinstance(mine.score, Biased):
        table, furthest = _bias_table(mine.score.bias, positions, causal=causal)
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


def numbers(x: Tensor) -> np.ndarray:
    """Return a copy of a tensor in float32; CTranslate2 quantises weights in place."""
    return np.array(x.detach().float().numpy(), order="C")
