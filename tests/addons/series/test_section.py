import pytest

from crosshead.addons.series.section import SeriesData
from crosshead.config import validate
from crosshead.errors import ConfigError


def test_columns_may_be_given_in_one_text() -> None:
    assert SeriesData(target="a, b,c").target == ["a", "b", "c"]  # type: ignore[arg-type]
    assert SeriesData(target=["a, b", "c"]).target == ["a, b", "c"]
    assert SeriesData(target="x", inputs="y, z").inputs == ["y", "z"]  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"data.target, .* name 'x' twice"):
        validate(SeriesData, {"target": "x,y,x"})
    assert SeriesData(series="a.csv", target="x,y").target == ["x", "y"]  # type: ignore[arg-type]


def test_inputs_are_columns_beside_the_target() -> None:
    with pytest.raises(ConfigError, match=r"data.inputs and data.future need data.target"):
        validate(SeriesData, {"inputs": "x"})
    with pytest.raises(ConfigError, match=r"data.inputs, .* name 'x' twice"):
        validate(SeriesData, {"inputs": "y,x", "target": "x"})
    with pytest.raises(ConfigError, match=r"data.inputs, .* name 'y' twice"):
        validate(SeriesData, {"inputs": "y", "future": "y", "target": "x"})
