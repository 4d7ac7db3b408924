"""Untrained forecasters for tests, with the scale of a series."""

from pathlib import Path
from typing import Any

from crosshead.addons.series.forecaster import SeriesBundle, SeriesBundleConfig, SeriesForecaster
from crosshead.addons.series.models.forecaster import ForecasterShape
from crosshead.addons.series.windows import fit_scale
from tests.addons.series.small_forecasters import small
from tests.text.written import read_series

SHAPE = ForecasterShape(context=30, horizon=5, columns=2, known=4)
HOUR = (3_600_000_000, 0, 1)


def forecaster(
    path: Path, architecture: str = "dlinear", targets: int = 2, **settings: Any
) -> SeriesForecaster:
    """A pipeline of an untrained model, with the scale of all rows of a series."""
    series = read_series([str(path)])
    scale = fit_scale(series, len(series))
    model = small(architecture, SHAPE._replace(columns=targets, inputs=2 - targets), **settings)
    config = SeriesBundleConfig(
        task="forecasting", model=model.config, target=list(series.names[:targets]),
        inputs=list(series.names[targets:]), means=scale.mean.tolist(),
        deviations=scale.deviation.tolist(), time=None, context=30, horizon=5, step=HOUR,
        season=24, naive_errors=[0.5, 0.25][:targets],
    )  # fmt: skip
    return SeriesForecaster(SeriesBundle(config, model))
