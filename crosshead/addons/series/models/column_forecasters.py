"""Forecasters that continue each column from its own past: DLinear and PatchTST."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal, Self

import torch
from jaxtyping import Float
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.addons.series.models.forecaster import (
    Forecaster,
    ForecasterConfig,
    ForecasterShape,
    SeriesStackConfig,
    with_positions,
)
from crosshead.attention.attend import Attention
from crosshead.attention.dropout import Dropout
from crosshead.config import MOST_KERNEL, MOST_LAYERS, MOST_POSITIONS
from crosshead.layers.embeddings import LearnedPositions
from crosshead.models.attention_kinds import PositionsName
from crosshead.models.base import AttentionKind
from crosshead.models.stack import Activation, added_positions, encoder_stack


class LinearForecasterConfig(ForecasterConfig):
    """The settings of DLinear."""

    cannot: ClassVar[Mapping[str, str]] = {
        **ForecasterConfig.cannot,
        "d_model": "dlinear has no hidden states; leave d_model out",
        "dropout": "dlinear has no dropout; leave it out",
    }

    architecture: Literal["dlinear"] = "dlinear"
    """The architecture of the model."""

    normalize: Literal["none", "instance", "last"] = "none"
    """Normalisation of each window and column, as for `patchtst`; the paper's DLinear has none."""

    kernel: int = Field(25, ge=1, le=MOST_KERNEL)
    """Steps of the moving average that separates trend and seasonal part; odd. 1 leaves one linear
    layer without a seasonal part, which is NLinear together with `normalize = "last"`."""

    @field_validator("kernel")
    @classmethod
    def _check_kernel(cls, kernel: int) -> int:
        if kernel % 2 == 0:
            raise ValueError(f"expected an odd number, found {kernel}")
        return kernel

    def shape(self) -> str:
        """Return the moving average and the normalisation, as a clause."""
        return f"moving average of {self.kernel}, normalization {self.normalize}"


class LinearForecaster(Forecaster):
    """DLinear.

    A moving average is the trend, and the rest is the seasonal part. One linear layer continues
    each of them, the same for all columns, and the forecast is the sum.

    Args:
        config: The settings.
        shape: The sizes of the data.

    Reference:
        Zeng et al. 2023, "Are Transformers Effective for Time Series Forecasting?".
    """

    config: LinearForecasterConfig

    def __init__(self, config: LinearForecasterConfig, shape: ForecasterShape) -> None:
        super().__init__(config, shape)
        self.trend = nn.Linear(shape.context, shape.horizon * config.outputs)
        self.seasonal = (
            nn.Linear(shape.context, shape.horizon * config.outputs) if config.kernel > 1 else None
        )

    def predict(
        self,
        context: Float[Tensor, "B S C"],
        known: Float[Tensor, "B _ K"],
        target: Float[Tensor, "B T C"] | None,
    ) -> Float[Tensor, "B T C Q"]:
        """Return the forecasts; calendar and target are not read."""
        x = context.transpose(1, 2)
        trend = moving_average(x, self.config.kernel)
        found = self.trend(trend)
        if self.seasonal is not None:
            found = found + self.seasonal(x - trend)
        found = found.unflatten(-1, (self.shape.horizon, self.config.outputs))
        return found.transpose(1, 2)


def moving_average(x: Float[Tensor, "B C S"], kernel: int) -> Float[Tensor, "B C S"]:
    """Return the mean of the values around each value; both ends are padded with themselves."""
    padded = F.pad(x, (kernel // 2, kernel // 2), mode="replicate")
    return F.avg_pool1d(padded, kernel, stride=1)


class PatchForecasterConfig(SeriesStackConfig):
    """The settings of PatchTST."""

    cannot: ClassVar[Mapping[str, str]] = {
        **SeriesStackConfig.cannot,
        "max_length": "the number of patches follows data.context; leave max_length out",
    }

    architecture: Literal["patchtst"] = "patchtst"
    """The architecture of the model."""

    layers: int = Field(3, ge=1, le=MOST_LAYERS)
    """Number of layers."""

    patch_length: int = Field(16, ge=1, le=MOST_POSITIONS)
    """Steps of a patch (Nie et al. 2023, section 3.1)."""

    patch_stride: int = Field(8, ge=1, le=MOST_POSITIONS)
    """Steps between the beginnings of patches. The last value is repeated `patch_stride` times
    behind the context, for one more patch."""

    positions: PositionsName = "learned"
    """The kind of positions of the patches, as for `transformer`; the paper learns them."""

    activation: Activation = "gelu"
    """Activation function of the feed-forward network; the paper's code has `gelu`."""

    @model_validator(mode="after")
    def _check_patches(self) -> Self:
        if self.patch_stride > self.patch_length:
            raise ValueError(
                f"patch_stride {self.patch_stride} is more than patch_length {self.patch_length}, "
                "so that steps between patches would not be read; lower it"
            )
        return self

    @property
    def most_positions(self) -> int | None:
        """None: the number of patches follows the context."""
        return None

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.layers

    def shape(self) -> str:
        """Return the patches, the number of layers and the widths, as a clause."""
        patches = f"patches of {self.patch_length} every {self.patch_stride}"
        return f"{patches}, {self.layers_and_widths(str(self.layers))}"


class PatchForecaster(Forecaster):
    """PatchTST.

    Every column is a sequence of its own, and all columns share the weights (channel independence).
    Patches are projected to vectors, positions are added, encoder layers follow, and
    one linear layer maps all vectors of a column to its horizon.

    The layers have layer norm, where the paper has batch norm. The authors' code also adds the
    scores of the layer below to the scores of attention, applies dropout twice to the output of
    attention, and leaves the initial weights to PyTorch; this model does not.

    Args:
        config: The settings.
        shape: The sizes of the data.

    Raises:
        ValueError: If the context is shorter than a patch.

    Reference:
        Nie et al. 2023, "A Time Series is Worth 64 Words", section 3.1.
    """

    config: PatchForecasterConfig

    def __init__(self, config: PatchForecasterConfig, shape: ForecasterShape) -> None:
        super().__init__(config, shape)
        if shape.context < config.patch_length:
            raise ValueError(
                f"a context of {shape.context} is shorter than a patch of {config.patch_length}"
            )
        count = (shape.context - config.patch_length) // config.patch_stride + 2
        self.projection = nn.Linear(config.patch_length, config.d_model)
        self.positions = (
            LearnedPositions(config.d_model, count, std=0.02)
            if config.positions == "learned"
            else added_positions(config)
        )
        self.dropout = Dropout(config.dropout)
        self.encoder = encoder_stack(config, config.layers)
        self.head = nn.Linear(count * config.d_model, shape.horizon * config.outputs)

    def predict(
        self,
        context: Float[Tensor, "B S C"],
        known: Float[Tensor, "B _ K"],
        target: Float[Tensor, "B T C"] | None,
    ) -> Float[Tensor, "B T C Q"]:
        """Return the forecasts; calendar and target are not read."""
        batch, _, columns = context.shape
        x = self.projection(self.patches(context.transpose(1, 2).flatten(0, 1)))
        x = self.dropout(with_positions(x, self.positions))
        for layer in self.encoder.layers:
            x = layer(x, None)
        found = self.head(self.encoder.norm(x).flatten(1))
        found = found.view(batch, columns, self.shape.horizon, self.config.outputs)
        return found.transpose(1, 2)

    def patches(self, x: Float[Tensor, "N S"]) -> Float[Tensor, "N P W"]:
        """Cut sequences into patches; the last patch is padded with copies of the last value.

        Args:
            x: Sequences, "N S".

        Returns:
            The patches, "N P W".
        """
        padded = torch.cat([x, x[:, -1:].expand(-1, self.config.patch_stride)], dim=1)
        return padded.unfold(1, self.config.patch_length, self.config.patch_stride)

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the self-attention modules, the first layer first."""
        return {"encoder": [layer.attention for layer in self.encoder.layers]}

    def layers(self) -> Iterable[nn.Module]:
        """Return the layers of the encoder."""
        return self.encoder.layers
