"""Recipes of forecasting: the section `[data]`, the rules of a recipe, and the presets."""

import re
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from crosshead.addons.series.models.column_forecasters import PatchForecasterConfig
from crosshead.config import MOST_POSITIONS, called, shown
from crosshead.data import DataSection, Names
from crosshead.models.registry import CONFIGS
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe

_SPLIT = r"\d{1,9}/\d{1,9}/\d{1,9}( (months|days|rows))?"


def _separated(given: Any) -> Any:
    """Return the names in a text with commas. Names in a list may have commas of their own."""
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else given


Columns = Annotated[list[str], BeforeValidator(_separated)]
"""The value of a key that names columns: a list, or a text with commas between the names."""


class SeriesData(DataSection):
    """Time series: the section `[data]` of a recipe for forecasting."""

    file_keys: ClassVar[tuple[str, ...]] = ("series",)

    series: Names = Field(default_factory=list)
    """Files of time series: CSV (also .csv.gz) or Parquet, with a time column. Each further file
    continues the file before it."""

    target: Columns = Field(default_factory=list)
    """Columns to forecast. The model reads the past of the same columns. Unset: all columns of
    numbers that are not constant."""

    inputs: Columns = Field(default_factory=list)
    """Columns whose past the model reads in addition to that of `target`, without forecasting them.
    They need `target`, and a model that reads all columns together: series-transformer or
    series-recurrent."""

    future: Columns = Field(default_factory=list)
    """Columns that are known for the steps to forecast, too, such as holidays or prices. A file to
    forecast has rows with their values after the last value of `target`. They need `target`, and a
    model as for `inputs`."""

    id: str | None = None
    """The column that tells the series of a long table apart: one model is trained on all of them,
    each scaled by its own training period. Unset: a column called unique_id or item_id, if there is
    one. A long table with a column y forecasts it by default."""

    time: str | None = None
    """The time column. Unset: a column called date, time, timestamp, datetime, ds, day, month,
    quarter, year, t or step, or else the first column with times."""

    horizon: int = Field(96, ge=1, le=MOST_POSITIONS)
    """Number of steps to forecast."""

    context: int = Field(336, ge=1, le=MOST_POSITIONS)
    """Number of past steps that a forecast is made from."""

    split: str = "70/10/20"
    """Sizes of the training, validation and test periods, in the order of time: in per cent of the
    rows, or as `12/4/4 months` of 30 days, `days` or `rows`. The windows of a period predict only
    rows of this period; their context may reach back into the rows before it."""

    season: int | None = Field(None, ge=1, le=MOST_POSITIONS)
    """Number of steps of a season, for the seasonal naive forecast and for MASE. Unset: guessed
    from the time between rows, such as 24 for hours."""

    @field_validator("split")
    @classmethod
    def _check_split(cls, given: str) -> str:
        if not re.fullmatch(_SPLIT, given):
            raise ValueError(
                f"expected three numbers such as 70/10/20 or 12/4/4 months, found {shown(given)}"
            )
        return given

    @model_validator(mode="after")
    def _check_columns(self, info: ValidationInfo) -> Self:
        keys = [called(f"data.{key}", info) for key in ("target", "inputs", "future")]
        names = [*self.target, *self.inputs, *self.future]
        if names and not self.target:
            raise ValueError(f"{' and '.join(keys[1:])} need {keys[0]}: name columns to forecast")
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{', '.join(keys)} name {name!r} twice; name it once")
        return self


class ForecastingRecipe(Recipe):
    """A run on a time series."""

    data: SerializeAsAny[SeriesData]

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        context, model = self.data.context, self.model
        readers = [name for name, each in CONFIGS.items() if getattr(each, "reads_inputs", False)]
        for key, names in (("data.inputs", self.data.inputs), ("data.future", self.data.future)):
            if names and model.architecture not in readers:
                raise ValueError(
                    f"model {model.architecture} forecasts each column from its own past and "
                    f"cannot read {called(key, info)}; leave it out, or choose model "
                    f"{' or '.join(readers)}"
                )
        if isinstance(model, PatchForecasterConfig) and context < model.patch_length:
            raise ValueError(
                f"{called('data.context', info)} {context} is shorter than a patch of "
                f"model.patch_length {model.patch_length}; raise the first or lower the second"
            )
        most = model.most_positions
        if most is not None and max(context, self.data.horizon) > most:
            raise ValueError(
                f"{called('data.context', info)} {context} or data.horizon {self.data.horizon} is "
                f"more than the {most} learned positions of model.max_length; raise max_length"
            )
        return self


_FORECAST = {
    "schedule": "cosine",
    "learning_rate": 0.001,
    "max_updates": 3000,
    "adam_beta2": 0.999,
    "adam_eps": 1e-8,
    "batch_tokens": 100_000,
    "precision": "float32",
    "average": 0,
    "patience": 10,
}

PRESETS: dict[str, dict[str, Sections]] = {
    "patchtst": {
        "tiny": {
            "model": {
                "layers": 3, "d_model": 16, "d_ff": 128, "heads": 4, "dropout": 0.3,
                "activation_dropout": 0.3,
            },
            "train": _FORECAST,
        },
        "small": {
            "model": {
                "layers": 3, "d_model": 128, "d_ff": 256, "heads": 16, "dropout": 0.2,
                "activation_dropout": 0.2,
            },
            "train": {**_FORECAST, "learning_rate": 0.0003},
        },
    },
    "dlinear": {"tiny": {"model": {}, "train": _FORECAST}},
    "series-transformer": {
        "tiny": {
            "model": {
                "encoder_layers": 2, "decoder_layers": 1, "d_model": 64, "d_ff": 128, "heads": 4,
                "dropout": 0.1,
            },
            "train": _FORECAST,
        },
    },
    "series-recurrent": {
        "tiny": {"model": {"layers": 2, "d_model": 64, "dropout": 0.1}, "train": _FORECAST},
    },
}  # fmt: skip
"""The presets by the name of the architecture: complete recipes except for the data."""
