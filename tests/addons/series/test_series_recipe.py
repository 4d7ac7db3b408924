from typing import Any

import pytest

from crosshead.addons.series.series_recipe import PRESETS, SeriesData
from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.models.registry import CONFIGS
from crosshead.recipe import presets
from crosshead.recipe.compose import compose


def recipe(architecture: str, **data: Any) -> Any:
    data = {"series": ["wave.csv"], "target": ["load"], **data}
    return compose(flags={"data": data, "model": {"architecture": architecture}})


@pytest.mark.parametrize("architecture", ["series-transformer", "series-recurrent"])
def test_models_of_all_columns_together_take_further_inputs(architecture: str) -> None:
    assert recipe(architecture, inputs="price,wind").data.inputs == ["price", "wind"]
    assert recipe(architecture, future="price,wind").data.future == ["price", "wind"]


@pytest.mark.parametrize("architecture", ["patchtst", "dlinear"])
@pytest.mark.parametrize("key", ["inputs", "future"])
def test_models_of_one_column_at_a_time_refuse_further_inputs(architecture: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recipe(architecture, **{key: ["price"]})
    assert f"cannot read data.{key};" in str(caught.value)
    assert f"model {architecture} forecasts each column from its own past and cannot read" in str(
        caught.value
    )
    assert str(caught.value).endswith("choose model series-transformer or series-recurrent")


@pytest.mark.parametrize(
    "assignment", ["consistency=simcut", "consistency=r-drop", "word_dropout=0.1"]
)
def test_two_views_of_tokens_are_not_for_forecasts(assignment: str) -> None:
    data = {"series": ["wave.csv"], "target": ["load"]}
    flags = {"data": data, "model": {"architecture": "patchtst"}}
    with pytest.raises(ConfigError, match=r"is for models that predict tokens; .* patchtst"):
        compose(flags=flags, assignments=[assignment])
    assert compose(flags=flags, assignments=["ema=0.9"]).train.ema == 0.9


def test_a_context_holds_a_patch() -> None:
    with pytest.raises(ConfigError, match=r"data.context 8 is shorter than a patch of model.patch"):
        recipe("patchtst", context=8)


def test_learned_positions_reach_over_context_and_horizon() -> None:
    learned = {"positions": "learned", "max_length": 100, "architecture": "series-transformer"}
    data = {"series": ["wave.csv"], "context": 50, "horizon": 200}
    with pytest.raises(ConfigError, match=r"more than the 100 learned positions"):
        compose(flags={"data": data, "model": learned})


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


def test_every_forecaster_has_presets() -> None:
    names = {name for name, config in CONFIGS.items() if config.task == "forecasting"}
    assert names == PRESETS.keys()
    assert all(presets.PRESETS[name] == PRESETS[name] for name in names)
