"""Models of different architectures with the same number of weights, to compare."""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from crosshead.addons.studies.fitting import size
from crosshead.bundle.weights import build_without_memory
from crosshead.models.convolutional import ConvolutionalConfig
from crosshead.models.recurrent import RecurrentConfig
from crosshead.models.registry import AnyTokenConfig, build_model
from crosshead.models.transformer import TransformerConfig

PLAIN, BAHDANAU, LUONG = "LSTM without attention", "LSTM, Bahdanau", "LSTM, Luong"
CONVOLUTIONAL, TRANSFORMER = "ConvS2S", "Transformer"

POSITIONS = 260
"""Positions of ConvS2S: enough for sentences of 256 tokens, the longest in training, and their
ends."""

WITHIN = 0.02
"""The largest relative difference in weights between models that count as equally large."""

WIDTHS = range(16, 2049, 2)
"""Even widths: half of a bidirectional layer reads backwards."""


def transformer(
    width: int, d_ff: int, heads: int, layers: int, *, norm: str = "post", dropout: float = 0.0
) -> TransformerConfig:
    """Return a Transformer with as many layers on either side."""
    sides = {"encoder_layers": layers, "decoder_layers": layers}
    inner = {"d_ff": d_ff, "heads": heads, "norm": norm, "dropout": dropout}
    return TransformerConfig.model_validate({"d_model": width, **sides, **inner})


def weights(config: AnyTokenConfig, vocabulary: int) -> int:
    """Return the number of weights of such a model, counted without allocating them."""
    return size(build_without_memory(partial(build_model, config, vocabulary, vocabulary)))


def as_large(
    shape: Callable[[int], AnyTokenConfig], vocabulary: int, wanted: int
) -> AnyTokenConfig:
    """Return the shape, by its width, whose number of weights is nearest to the wanted one."""

    def count(width: int) -> int:
        return weights(shape(width), vocabulary)

    above = bisect_left(WIDTHS, wanted, key=count)
    near = WIDTHS[max(0, above - 1) : above + 1]
    best = min(near, key=lambda width: abs(count(width) - wanted))
    if abs(count(best) / wanted - 1) > WITHIN:
        raise ValueError(
            f"no width gives {wanted:,} weights within {WITHIN:.0%}: {best} gives {count(best):,}"
        )
    return shape(best)


def shapes(reference: TransformerConfig, vocabulary: int) -> dict[str, AnyTokenConfig]:
    """Return a Transformer, and the other architectures with as many weights.

    The recurrent models have one layer a side, as Bahdanau's, and differ only in how the decoder
    sees the source. ConvS2S has as many layers as the Transformer.
    """
    common = {"encoder_layers": 1, "decoder_layers": 1, "dropout": reference.dropout}
    sides = dict.fromkeys(("encoder_layers", "decoder_layers"), reference.encoder_layers)

    def recurrent(attention: str, d_model: int) -> AnyTokenConfig:
        own = {"d_model": d_model, "attention": attention}
        return RecurrentConfig.model_validate(common | own)

    def convolutional(d_model: int) -> AnyTokenConfig:
        own = {"d_model": d_model, "max_length": POSITIONS}
        return ConvolutionalConfig.model_validate(common | sides | own)

    compared: dict[str, Callable[[int], AnyTokenConfig]] = {
        PLAIN: partial(recurrent, "none"),
        BAHDANAU: partial(recurrent, "bahdanau"),
        LUONG: partial(recurrent, "luong-general"),
        CONVOLUTIONAL: convolutional,
    }
    wanted = weights(reference, vocabulary)
    found = {name: as_large(shape, vocabulary, wanted) for name, shape in compared.items()}
    return {**found, TRANSFORMER: reference}
