"""Recipes of forecasting."""

from typing import Self

from pydantic import SerializeAsAny, ValidationInfo, model_validator

from crosshead.addons.series.models.forecaster import ForecasterConfig
from crosshead.addons.series.models.patch_forecaster import PatchForecasterConfig
from crosshead.addons.series.section import SeriesData
from crosshead.config import called
from crosshead.models.registry import CONFIGS
from crosshead.recipe.recipe import Recipe


class ForecastingRecipe(Recipe):
    """A run on a time series."""

    data: SerializeAsAny[SeriesData]

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        context, model = self.data.context, self.model
        for key, names in (("data.inputs", self.data.inputs), ("data.future", self.data.future)):
            if names and not getattr(model, "reads_inputs", False):
                raise ValueError(
                    f"model {model.architecture} forecasts each column from its own past and "
                    f"cannot read {called(key, info)}; leave it out, or choose model "
                    f"{' or '.join(_readers_of_inputs())}"
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


def _readers_of_inputs() -> list[str]:
    """Return the architectures that read columns which they do not forecast."""
    return [
        name
        for name, config in CONFIGS.items()
        if issubclass(config, ForecasterConfig) and config.reads_inputs
    ]
