"""Models of different architectures with as many weights, to compare."""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from crosshead.bundle.weights import build_without_memory
from crosshead.models.convolutional import ConvolutionalConfig
from crosshead.models.recurrent import RecurrentConfig
from crosshead.models.registry import AnyConfig, build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.studies.fitting import size

PLAIN, BAHDANAU, LUONG = "LSTM without attention", "LSTM, Bahdanau", "LSTM, Luong"
CONVOLUTIONAL, TRANSFORMER = "ConvS2S", "Transformer"

POSITIONS = 260
"""Positions of ConvS2S: enough for sentences of 256 tokens, the longest in training, and their
ends."""

WITHIN = 0.02
"""By what share of its size a model may differ from another that counts as equally large."""

WIDTHS = range(16, 2049, 2)
"""Even ones: half of a bidirectional layer reads backwards."""


def weights(config: AnyConfig, vocabulary: int) -> int:
    """The number of weights of such a model, counted without making any."""
    return size(build_without_memory(partial(build_model, config, vocabulary, vocabulary)))


def as_large(shape: Callable[[int], AnyConfig], vocabulary: int, wanted: int) -> AnyConfig:
    """The shape of that width, of `WIDTHS`, whose number of weights is nearest to the one wanted.

    The number has to grow with the width. Raises `ValueError` where none is as near as `WITHIN`.
    """

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


def shapes(reference: TransformerConfig, vocabulary: int) -> dict[str, AnyConfig]:
    """Return a Transformer, and the other architectures with as many weights as it has.

    The recurrent ones have one layer a side, as Bahdanau's, and differ in how the decoder sees the
    source alone; ConvS2S has as many layers as the Transformer.
    """
    wanted, dropout = weights(reference, vocabulary), reference.dropout
    found: dict[str, AnyConfig] = {}
    for name, attention in ((PLAIN, "none"), (BAHDANAU, "bahdanau"), (LUONG, "luong-general")):
        found[name] = as_large(partial(recurrent, attention, dropout), vocabulary, wanted)
    of_layers = partial(convolutional, reference.encoder_layers, dropout)
    found[CONVOLUTIONAL] = as_large(of_layers, vocabulary, wanted)
    return {**found, TRANSFORMER: reference}


def recurrent(attention: str, dropout: float, d_model: int) -> RecurrentConfig:
    """Return an LSTM encoder-decoder of one layer a side."""
    return RecurrentConfig.model_validate(
        {
            "d_model": d_model, "encoder_layers": 1, "decoder_layers": 1, "attention": attention,
            "dropout": dropout,
        }
    )  # fmt: skip


def convolutional(layers: int, dropout: float, d_model: int) -> ConvolutionalConfig:
    """Return ConvS2S with as many layers on either side."""
    return ConvolutionalConfig.model_validate(
        {
            "d_model": d_model, "encoder_layers": layers, "decoder_layers": layers,
            "dropout": dropout, "max_length": POSITIONS,
        }
    )  # fmt: skip
