import pytest

from crosshead.config import validate
from crosshead.data.series.section import SeriesData
from crosshead.errors import ConfigError


def test_columns_may_be_given_in_one_text() -> None:
    assert SeriesData(target=["a, b", "c"]).target == ["a", "b", "c"]  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^target: names 'x' twice"):
        validate(SeriesData, {"target": "x,y,x"})
    assert SeriesData(series="a.csv", target="x,y").target == ["x", "y"]  # type: ignore[arg-type]
