"""Encoder-decoders over observations: a Transformer and a recurrent one.

The decoder reads the value before each step and predicts the step: shifted targets, as in the
translation of text. Without targets it reads its own forecasts. The Transformer can also forecast
all steps at once.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from crosshead.addons.series.models.forecaster import (
    Forecaster,
    ForecasterConfig,
    ForecasterShape,
    SeriesStackConfig,
    with_positions,
)
from crosshead.attention.attend import Attention
from crosshead.attention.dropout import Dropout
from crosshead.attention.kv_cache import DecodingCache, NoCache
from crosshead.config import MOST_LAYERS
from crosshead.layers.rnn import Cell, RecurrentStack
from crosshead.models.base import AttentionKind
from crosshead.models.patterns import causal_mask
from crosshead.models.stack import added_positions, decoder_stack, encoder_stack


class SeriesTransformerConfig(SeriesStackConfig):
    """The settings of the encoder-decoder Transformer over observations."""

    reads_inputs: ClassVar[bool] = True

    architecture: Literal["series-transformer"] = "series-transformer"
    """The architecture of the model."""

    encoder_layers: int = Field(2, ge=1, le=MOST_LAYERS)
    """Layers of the encoder."""

    decoder_layers: int = Field(1, ge=1, le=MOST_LAYERS)
    """Layers of the decoder."""

    forecast: Literal["autoregressive", "direct"] = "autoregressive"
    """The order of the forecasts: each step from the one before it (`autoregressive`), or all steps
    at once (`direct`). In the direct form every step of the decoder reads the last value of the
    context and its own calendar, and attends to all steps of the horizon. Informer, too, forecasts
    in one pass (Zhou et al. 2021, section 3.3), but from zeros and with a causal mask."""

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.encoder_layers + self.decoder_layers

    def shape(self) -> str:
        """Return the number of layers and the widths, as a clause."""
        return self.layers_and_widths(f"{self.encoder_layers}+{self.decoder_layers}")


class SeriesRecurrentConfig(ForecasterConfig):
    """The settings of the recurrent encoder-decoder over observations."""

    reads_inputs: ClassVar[bool] = True

    architecture: Literal["series-recurrent"] = "series-recurrent"
    """The architecture of the model."""

    cell: Cell = "lstm"
    """Kind of recurrent cell."""

    layers: int = Field(2, ge=1, le=MOST_LAYERS)
    """Number of layers of the encoder, and of the decoder."""

    @property
    def depth(self) -> int:
        """The number of layers."""
        return 2 * self.layers

    def shape(self) -> str:
        """Return the number of layers and the width, as a clause."""
        return f"{self.layers}+{self.layers} {self.cell.upper()} layers, d_model {self.d_model}"


class AutoregressiveForecaster(Forecaster):
    """The base of forecasters that read their own forecasts.

    A step of the encoder is the values of all columns and the calendar of its time. The decoder's
    step has the values before it of the columns to forecast, and its own calendar.
    """

    def __init__(self, config: ForecasterConfig, shape: ForecasterShape) -> None:
        super().__init__(config, shape)
        self.source = nn.Linear(shape.columns + shape.inputs + shape.known, config.d_model)
        self.target = nn.Linear(shape.columns + shape.known, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.projection = nn.Linear(config.d_model, shape.columns * config.outputs)

    def predict(
        self,
        context: Float[Tensor, "B S I"],
        known: Float[Tensor, "B _ K"],
        target: Float[Tensor, "B T C"] | None,
    ) -> Float[Tensor, "B T C Q"]:
        """Return the forecasts: of all steps at once if their inputs are known, else step by step.

        Step by step no gradient passes, and each step reads the median of the step before.
        """
        past, ahead = known[:, : context.shape[1]], known[:, context.shape[1] :]
        before = context[:, -1:, : self.shape.columns]
        inputs = self.inputs(before, target)
        if inputs is not None:
            state = self.start(context, past, forced=True)
            return self._outputs(self.decode(state, self._steps(inputs, ahead), 0)[0])
        found = []
        with torch.no_grad():
            state = self.start(context, past, forced=False)
            for step in range(ahead.shape[1]):
                x = self._steps(before, ahead[:, step : step + 1])
                hidden, state = self.decode(state, x, step)
                found.append(self._outputs(hidden))
                before = found[-1][..., self.config.median]
        return torch.cat(found, dim=1)

    def inputs(
        self, last: Float[Tensor, "B 1 C"], target: Float[Tensor, "B T C"] | None
    ) -> Float[Tensor, "B T C"] | None:
        """Return the values that the steps of the decoder read, or None if they are forecasts."""
        return None if target is None else torch.cat([last, target[:, :-1]], dim=1)

    @abstractmethod
    def start(
        self, context: Float[Tensor, "B S I"], known: Float[Tensor, "B S K"], *, forced: bool
    ) -> Any:
        """Return the state before the first step."""

    @abstractmethod
    def decode(
        self, state: Any, x: Float[Tensor, "B T D"], step: int
    ) -> tuple[Float[Tensor, "B T D"], Any]:
        """Compute the next steps."""

    def _steps(
        self, values: Float[Tensor, "B T C"], known: Float[Tensor, "B T K"]
    ) -> Float[Tensor, "B T D"]:
        return self.target(torch.cat([values, known], dim=-1))

    def _outputs(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T C Q"]:
        return self.projection(hidden).unflatten(-1, (self.shape.columns, self.config.outputs))


class SeriesTransformer(AutoregressiveForecaster):
    """The Transformer's encoder and decoder over the steps of a series.

    Args:
        config: The settings.
        shape: The sizes of the data.

    Reference:
        Vaswani et al. 2017, Figure 1.
    """

    config: SeriesTransformerConfig

    def __init__(self, config: SeriesTransformerConfig, shape: ForecasterShape) -> None:
        super().__init__(config, shape)
        self.source_positions, self.target_positions = (added_positions(config) for _ in range(2))
        self.encoder = encoder_stack(config, config.encoder_layers)
        self.decoder = decoder_stack(config, config.decoder_layers)

    def inputs(
        self, last: Float[Tensor, "B 1 C"], target: Float[Tensor, "B T C"] | None
    ) -> Float[Tensor, "B T C"] | None:
        """Return what the decoder reads: in the direct form the last value at every step."""
        if self.config.forecast == "direct":
            return last.expand(-1, self.shape.horizon, -1)
        return super().inputs(last, target)

    def start(
        self, context: Float[Tensor, "B S I"], known: Float[Tensor, "B S K"], *, forced: bool
    ) -> Any:
        """Encode the context; return keys and values of the memory, and caches of the decoder."""
        x = self.source(torch.cat([context, known], dim=-1))
        x = self.dropout(with_positions(x, self.source_positions))
        for layer in self.encoder.layers:
            x = layer(x, None)
        memory = self.encoder.norm(x)
        return [
            (layer.project_memory(memory), NoCache() if forced else DecodingCache())
            for layer in self.decoder.layers
        ]

    def decode(
        self, state: Any, x: Float[Tensor, "B T D"], step: int
    ) -> tuple[Float[Tensor, "B T D"], Any]:
        """Return the hidden states of the next steps; the caches are extended in place."""
        x = self.dropout(with_positions(x, self.target_positions, step))
        mask = None
        if self.config.forecast == "autoregressive":
            mask = causal_mask(self.config, x.shape[1], step, x.device)
        for layer, (memory, cache) in zip(self.decoder.layers, state, strict=True):
            x = layer(x, cache, memory, mask, None)
        return self.decoder.norm(x), state

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the attention modules of all three kinds, the first layer first."""
        return {
            "cross": [layer.cross_attention for layer in self.decoder.layers],
            "encoder": [layer.attention for layer in self.encoder.layers],
            "decoder": [layer.self_attention for layer in self.decoder.layers],
        }

    def layers(self) -> Iterable[nn.Module]:
        """Return the layers of both stacks."""
        return (*self.encoder.layers, *self.decoder.layers)

    def called_alone(self) -> Iterable[nn.Module]:
        """Return the projections of the memory, which run before the decoder's layers."""
        return [layer.cross_attention.key_value for layer in self.decoder.layers]


class SeriesRecurrent(AutoregressiveForecaster):
    """A recurrent encoder-decoder over the steps of a series.

    The decoder begins with the final state of each layer of the encoder.

    Args:
        config: The settings.
        shape: The sizes of the data.

    Reference:
        Sutskever et al. 2014, section 2.
    """

    config: SeriesRecurrentConfig

    def __init__(self, config: SeriesRecurrentConfig, shape: ForecasterShape) -> None:
        super().__init__(config, shape)
        self.encoder, self.decoder = (
            RecurrentStack(
                config.cell, config.layers, config.d_model, config.d_model, dropout=config.dropout
            )
            for _ in range(2)
        )

    def start(
        self, context: Float[Tensor, "B S I"], known: Float[Tensor, "B S K"], *, forced: bool
    ) -> Any:
        """Read the context; return the final states."""
        x = self.dropout(self.source(torch.cat([context, known], dim=-1)))
        zeros = x.new_zeros(self.config.layers, len(x), self.config.d_model)
        return self.encoder(x, (zeros,) * self.encoder.states_per_layer)[1]

    def decode(
        self, state: Any, x: Float[Tensor, "B T D"], step: int
    ) -> tuple[Float[Tensor, "B T D"], Any]:
        """Return the hidden states of the next steps, and the new states."""
        hidden, state = self.decoder(self.dropout(x), state)
        return self.dropout(hidden), state
