"""Series: forecasts of time series."""


def register() -> None:
    """Register forecasting and its architectures."""
    from crosshead.addons.series.forecasting import ForecastingTask
    from crosshead.addons.series.models.column_forecasters import (
        LinearForecaster,
        LinearForecasterConfig,
        PatchForecaster,
        PatchForecasterConfig,
    )
    from crosshead.addons.series.models.series_decoders import (
        SeriesRecurrent,
        SeriesRecurrentConfig,
        SeriesTransformer,
        SeriesTransformerConfig,
    )
    from crosshead.addons.series.series_recipe import PRESETS
    from crosshead.tasks.registry import register_architecture, register_task

    register_task(ForecastingTask(), {})
    register_architecture(PatchForecasterConfig, PatchForecaster, PRESETS["patchtst"])
    register_architecture(LinearForecasterConfig, LinearForecaster, PRESETS["dlinear"])
    register_architecture(SeriesTransformerConfig, SeriesTransformer, PRESETS["series-transformer"])
    register_architecture(SeriesRecurrentConfig, SeriesRecurrent, PRESETS["series-recurrent"])
