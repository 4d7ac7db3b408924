"""The task of forecasting: its data, its loss, and whole runs by the ordinary commands."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
import torch.distributed as dist

import crosshead
from crosshead.addons.series.forecaster import SeriesForecaster
from crosshead.addons.series.forecasting import (
    ForecastingTask,
    forecast_loss,
    forecast_scores,
    why_without_season,
)
from crosshead.addons.series.models.forecaster import Forecaster, ForecasterConfig, ForecasterShape
from crosshead.addons.series.windows import SeriesBatch
from crosshead.attention.dropout import Dropout
from crosshead.bundle.files import verify_bundle
from crosshead.cli import run
from crosshead.models.registry import CONFIGS, MODELS
from crosshead.recipe.compose import compose
from crosshead.recipe.presets import PRESETS
from crosshead.recipe.train import TrainConfig
from crosshead.training.distributed import shard
from tests.addons.series.forecasters import forecaster
from tests.addons.series.small_forecasters import SIZES, inputs, small
from tests.parameters import mostly_slow
from tests.text.written import read_series, refusal, write, write_series

DATA = ["--series", "wave.csv", "--target", "load", "--horizon", "8", "--context", "48"]
TRAIN = ["--threads", 1, "--set", "train.batch_tokens=1536", "--set", "learning_rate=0.01"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = write_series(Path("wave.csv"), rows=400).read_text().splitlines()[1:]
    Path("times.csv").write_text("\n".join(["date,time,b", *rows]))


def command(*arguments: Any) -> int:
    return run([str(each) for each in arguments])


def sizes(architecture: str) -> list[str]:
    still = {"dlinear": {}, "patchtst": {"dropout": 0.0, "activation_dropout": 0.0}}
    wanted = {**SIZES[architecture], **still.get(architecture, {"dropout": 0.0})}
    return [text for key, value in wanted.items() for text in ("--set", f"model.{key}={value}")]


def trained(out: str, *arguments: Any, model: str = "patchtst") -> list[dict[str, Any]]:
    settings = ["--model", model, *sizes(model), *TRAIN]
    assert command("train", *DATA, "--out", out, *settings, *arguments) == 0
    return [json.loads(line) for line in Path(out, "log.jsonl").read_text().splitlines()]


def weights(name: str) -> bytes:
    return Path(name, "model.safetensors").read_bytes()


def recipe(**data: Any) -> Any:
    data = {"series": ["wave.csv"], "horizon": 8, "context": 48, **data}
    return compose(flags={"data": data})


@pytest.mark.parametrize("model", mostly_slow(SIZES, ["dlinear", "patchtst"]))
def test_a_trend_with_a_season_is_forecast_better_than_by_the_season_alone(
    model: str, capfd: pytest.CaptureFixture[str]
) -> None:
    wide = ["--set", "model.d_model=16", "--set", "model.d_ff=32"]
    wider = wide if model == "series-transformer" else []
    log = trained("run", "--max-updates", 300 if wider else 150, *wider, model=model)
    end = log[-1]
    assert end["mae"] < 0.7 * end["mae_of_seasonal_naive_(24)"] < end["mae_of_last_value"]
    assert end["values"] > 0 and "target_tokens" not in end
    shown = capfd.readouterr()
    assert "MASE (8 steps from 48)" in shown.out and "not usable" not in shown.out
    assert "a season is 24 steps" in shown.err
    forecast = crosshead.load("run")
    assert isinstance(forecast, SeriesForecaster)
    found = forecast("wave.csv", start="2024-01-15")
    rows = slice(24 * 14, 24 * 14 + 8)
    assert abs(found.values - found.series.values[rows]).mean() < 0.8
    assert not any(wrong for _, wrong in verify_bundle(Path("run")))


@pytest.mark.slow
def test_a_column_that_is_only_read_tells_what_comes(capfd: pytest.CaptureFixture[str]) -> None:
    """`load` is noise that `sign` shows two steps ahead, so only `sign` makes a forecast better."""
    noise = np.random.default_rng(1).normal(size=502)
    times = np.datetime64("2024-01-01", "s") + np.arange(500) * np.timedelta64(1, "h")
    rows = map("{},{:.4f},{:.4f}".format, times, noise, noise[2:])
    write(Path("noise.csv"), "\n".join(["date,load,sign", *rows]))
    data = ["--series", "noise.csv", "--target", "load", "--horizon", 2, "--context", 4]
    data += ["--model", "series-recurrent", "--max-updates", 60, *TRAIN]
    data += ["--set", "model.d_model=16", "--set", "model.layers=1", "--set", "model.dropout=0"]
    data += ["--set", "model.normalize=none", "--set", "train.batch_tokens=256"]
    assert command("train", *data, "--out", "alone") == 0
    assert command("train", *data, "--inputs", "sign", "--out", "both") == 0
    alone, both = (
        json.loads(Path(name, "log.jsonl").read_text().splitlines()[-1])["mae"]
        for name in ("alone", "both")
    )
    assert both < 0.65 < 0.75 < alone
    assert "columns: load; inputs: sign;" in capfd.readouterr().err
    assert command("forecast", "both", "--series", "noise.csv") == 0
    assert capfd.readouterr().out.startswith("time,load\n")
    tune = ["train", "--series", "noise.csv", "--from", "both", "--max-updates", 2, *TRAIN]
    assert command(*tune, "--out", "tuned") == 0
    assert crosshead.load("tuned").bundle.config.columns == ["load", "sign"]
    assert command("average", "both", "tuned", "--out", "mean") == 0
    assert command(*tune, "--set", "data.inputs=[]", "--out", "no") == 2
    assert "data.inputs is [], and the bundle has ['sign']" in capfd.readouterr().err
    capfd.readouterr()
    assert command("average", "both", "alone", "--out", "no") == 2
    assert command("train", *data[:-2], "--inputs", "sing", "--out", "no") == 2
    assert "no column 'sing'; did you mean 'sign'?" in capfd.readouterr().err


def test_quantiles_cover_their_interval(capfd: pytest.CaptureFixture[str]) -> None:
    noise = np.random.default_rng(1).normal(size=2000)
    times = np.datetime64("2024-01-01", "s") + np.arange(2000) * np.timedelta64(1, "h")
    write(Path("wave.csv"), "\n".join(["t,load", *map("{},{}".format, times, noise)]))
    settings = ["--set", "model.quantiles=[0.1, 0.5, 0.9]", "--set", "data.time='t'"]
    settings += ["--context", 6, "--horizon", 2]
    log = trained("run", "--max-updates", 150, *settings, model="dlinear")
    assert 65 < log[-1]["coverage_of_the_80_%_interval,_%"] < 92
    assert 0 < log[-1]["pinball_loss"] < log[-1]["mae"]
    found = crosshead.load("run")("wave.csv")
    assert list(found.quantiles) == [0.1, 0.5, 0.9]
    low, middle, high = found.quantiles.values()
    assert (low <= middle).all() and (middle <= high).all() and middle is found.values
    assert "coverage of the 80 % interval, %" in Path("run", "README.md").read_text()


@pytest.mark.parametrize("model", mostly_slow(SIZES, ["dlinear", "patchtst"]))
def test_a_run_that_is_resumed_is_one_that_was_not_interrupted(model: str) -> None:
    settings = ["--set", "schedule=inverse-sqrt", "--set", "warmup=3"]
    settings += [] if model == "dlinear" else ["--set", "model.dropout=0.2"]
    trained("whole", "--max-updates", 12, *settings, model=model)
    trained("parts", "--max-updates", 6, *settings, model=model)
    assert command("train", "--resume", "--out", "parts", "--max-updates", 12) == 0
    assert weights("whole") == weights("parts")


@pytest.mark.parametrize("model", mostly_slow(SIZES, ["patchtst"]))
def test_parts_of_a_batch_make_the_same_update(model: str) -> None:
    logs = [
        trained(out, "--max-updates", 6, "--set", "log_every=1", *more, model=model)
        for out, more in (("whole", []), ("parts", ["--set", "accumulate=3"]))
    ]
    losses = [[row["loss"] for row in log if row["kind"] == "train"] for log in logs]
    assert len(losses[0]) == 6 and losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("model", mostly_slow(SIZES, ["patchtst"]))
def test_it_is_trained_in_16_bits(model: str) -> None:
    logs = [
        trained(precision, "--max-updates", 8, "--precision", precision, model=model)
        for precision in ("bfloat16", "float32")
    ]
    narrow, wide = (log[-1]["mae"] for log in logs)
    assert narrow == pytest.approx(wide, rel=0.05) and narrow != wide


def test_recomputed_layers_make_the_same_updates() -> None:
    trained("kept", "--max-updates", 4)
    trained("recomputed", "--max-updates", 4, "--set", "train.recompute=true")
    assert weights("kept") == weights("recomputed")


def test_bundles_are_averaged_packed_described_and_tuned(
    capfd: pytest.CaptureFixture[str],
) -> None:
    trained("a", "--max-updates", 10)
    trained("b", "--max-updates", 10, "--seed", 2)
    assert command("average", "a", "b", "--out", "mean") == 0
    assert command("pack", "mean", "--out", "mean.crosshead.zip") == 0
    first, second = (crosshead.load(name)("wave.csv") for name in ("mean", "mean.crosshead.zip"))
    assert np.array_equal(first.values, second.values)
    capfd.readouterr()
    assert command("info", "mean") == 0
    said = capfd.readouterr().out
    assert "patches of 6 every 3" in said and "1 hour" in said and "horizon" in said
    tune = ["train", "--series", "wave.csv", "--from", "a", "--max-updates", 5, *TRAIN]
    assert command(*tune, "--out", "tuned") == 0
    assert crosshead.load("tuned").bundle.config.means == crosshead.load("a").bundle.config.means
    capfd.readouterr()
    for change, words in (
        (["--horizon", 4], "data.horizon is 4, and the bundle has 8"),
        (["--target", "price"], "data.target is ['price'], and the bundle has ['load']"),
    ):
        assert command(*tune, *change, "--out", "other") == 2
        said = capfd.readouterr().err
        assert words in said and not Path("other").exists()
    write_series(Path("later.csv"), start="2025-01-01")
    other = ["--series", "later.csv", *DATA[2:], "--max-updates", 3]
    assert command("train", *other, *sizes("patchtst"), *TRAIN, "--out", "c") == 0
    capfd.readouterr()
    assert command("average", "a", "c", "--out", "none") == 2
    assert "its series differs from the series of a" in capfd.readouterr().err


def test_a_bundle_of_an_unfinished_run_forecasts() -> None:
    trained("run", "--max-updates", 10)
    for name in ("config.json", "model.safetensors", "README.md"):
        Path("run", name).unlink()
    assert crosshead.load("run")("wave.csv").values.shape == (8, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--series", "no.csv"], "no.csv: no such file"),
        (["--series", "wave.csv", "--target", "laod"], "no column 'laod'; did you mean 'load'?"),
        (["--series", "wave.csv", "--horizon", 500], "too few for 500 steps after 48; lower"),
        (
            ["--series", "wave.csv", "--horizon", 60, "--context", 48],
            "280, 40 and 80 rows, too few for 60 steps after 48; lower data.horizon",
        ),
        (["--series", "wave.csv", "--horizon", 0], "--horizon: expected 1 or more, found 0"),
        (["--series", "empty.csv"], "empty.csv: is empty"),
        (["--series", "times.csv"], "a forecast would have two columns called 'time'; rename"),
        (["--series", "flat.csv", "--target", "a"], "column 'a' is constant in the 280 rows"),
        (["--series", "flat.csv"], "column 'a' is constant"),
        (["--series", "wave.csv", "--context", 8], "--context 8 is shorter than a patch of model."),
        (["--model", "dlinear"], "give a file with a time series (--series)"),
        (["--series", "wave.csv", "--source", "a"], "--source is for a model that"),
        (
            ["--series", "wave.csv", "--set", "data.split=12/4 months"],
            "data.split: expected three numbers such as 70/10/20 or 12/4/4 months, found '12/4 mo",
        ),
        (
            ["--series", "wave.csv", "--set", "data.season=280", "--max-updates", 1],
            "data.season 280 is not shorter than the training period of 280 rows; lower",
        ),
        (["--series", "wave.csv", "--set", "data.split=5/5/5"], "parts that add up to 100"),
        (["--series", "wave.csv", "--set", "tokenizer.kind=words"], "tokenizer"),
        (["--series", "wave.csv", "--set", "train.metric=bleu"], "'loss' or 'mae', found 'bleu'"),
        (
            ["--series", "wave.csv", "--set", "model.quantiles=[0.9]"],
            "model.quantiles: expected",
        ),
        (["--series", "wave.csv", "--set", "train.batch_tokens=50"], "each window of 48 steps of"),
        (["--series", "wave.csv", "--model", "transformer"], "--series is for a model that"),
    ],
)
def test_mistakes_are_named_in_one_line(
    arguments: list[Any], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    write(Path("empty.csv"), "")
    rows = [f"2024-01-{1 + row // 24:02} {row % 24:02}:00,4" for row in range(400)]
    write(Path("flat.csv"), "\n".join(["date,a", *rows]))
    sized = ["--context", 48, "--horizon", 8] if "--series" in arguments else []
    assert command("train", *sized, *arguments, "--out", "run") == 2
    said = capfd.readouterr().err
    assert words in said and said.count("\n") == 1 and not Path("run").exists()


def test_rules_are_on_the_card() -> None:
    lines = Path("wave.csv").read_text().splitlines()
    write(Path("wave.csv"), "\n".join([*lines[:9], *lines[11:]]))
    trained("run", "--max-updates", 2)
    card = Path("run", "README.md").read_text()
    assert "2 missing rows added and filled" in card and "test: 73 windows from" in card
    assert "MASE of seasonal naive (24)" in card


class DriftConfig(ForecasterConfig):
    architecture: Literal["drift"] = "drift"

    def shape(self) -> str:
        return "the day before and a learned drift"


class Drift(Forecaster):
    def __init__(self, config: ForecasterConfig, shape: ForecasterShape) -> None:
        super().__init__(config, shape)
        self.drift = torch.nn.Parameter(torch.zeros(shape.horizon, 1, config.outputs))

    def predict(
        self, context: torch.Tensor, known: torch.Tensor, target: torch.Tensor | None
    ) -> torch.Tensor:
        return context[:, -24:-16, :, None] + self.drift


def test_a_forecaster_from_outside_the_package_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (CONFIGS, MODELS, PRESETS):
        monkeypatch.setitem(table, "drift", None)
        del table["drift"]
    crosshead.register_architecture(DriftConfig, Drift)
    settings = ["--max-updates", 40, *TRAIN, "--set", "model.normalize=none"]
    assert command("train", *DATA, "--model", "drift", "--out", "run", *settings) == 0
    end = json.loads(Path("run", "log.jsonl").read_text().splitlines()[-1])
    assert end["mse"] < 0.5 * end["mse_of_seasonal_naive_(24)"]
    assert crosshead.load("run")("wave.csv").values.shape == (8, 1)


def batch(observed: torch.Tensor | None = None) -> SeriesBatch:
    context, known, target = inputs()
    seen = torch.ones_like(target, dtype=torch.bool) if observed is None else observed
    return SeriesBatch(context, known, target, seen)


def test_the_loss_is_the_squared_error_or_the_pinball_loss() -> None:
    given = batch()
    found = torch.randn(3, 6, 2, 1)
    errors = given.target - found[..., 0]
    loss = forecast_loss(found, given, [])
    assert loss.count == given.count == 36
    assert loss.sums["loss"] == pytest.approx(float(errors.square().sum()))
    assert loss.sums["mae"] == pytest.approx(float(errors.abs().sum()))
    median = forecast_loss(found, given, [0.5])
    assert float(median.sums["loss"]) == pytest.approx(float(errors.abs().sum()) / 2)
    low = forecast_loss(torch.cat([found, found], dim=-1), given, [0.1, 0.5]).sums["loss"]
    tenth = torch.where(errors > 0, 0.1 * errors, -0.9 * errors).sum()
    assert float(low) == pytest.approx(float((tenth + errors.abs().sum() / 2) / 2))


def test_filled_values_do_not_count() -> None:
    observed = torch.rand(3, 6, 2) > 0.5
    given, found = batch(observed), torch.randn(3, 6, 2, 1, requires_grad=True)
    loss = forecast_loss(found, given, [])
    assert loss.count == given.count == int(observed.sum())
    loss.sums["loss"].backward()
    assert found.grad is not None and ((found.grad[..., 0] != 0) == observed).all()


@pytest.mark.parametrize("architecture", SIZES)
def test_sharded_weights_make_the_same_forecasts(architecture: str, tmp_path: Path) -> None:
    model, (context, known, target) = small(architecture).train(), inputs()
    for part in model.modules():
        if isinstance(part, Dropout):
            part.p = 0.0
    expected = model(context, known, target)
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        shard(model)
        found = model(context, known, target)
        torch.testing.assert_close(found, expected)
        found.sum().backward()
        assert all(each.grad is not None for each in model.parameters())
    finally:
        dist.destroy_process_group()


def test_only_training_forces_the_target() -> None:
    model, given = small("series-transformer"), batch()
    other = SeriesBatch(given.context, given.known, torch.zeros_like(given.target), given.observed)
    settings = TrainConfig(max_updates=1, learning_rate=0.1)

    def forecasts(of: SeriesBatch) -> list[torch.Tensor]:
        calls: list[torch.Tensor] = []
        hook = model.register_forward_hook(lambda module, args, output: calls.append(output))
        ForecastingTask().loss(model, of, settings)
        hook.remove()
        return calls

    assert torch.equal(forecasts(given)[0], forecasts(other)[0])
    model.train()
    assert not torch.equal(forecasts(given)[0], forecasts(other)[0])


def hour(row: int) -> str:
    """The time of a row of the series."""
    return str(np.datetime64("2024-01-01T00", "h") + row)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_series(tmp_path / "s.csv", rows=100)


@pytest.mark.parametrize("original", [False, True])
def test_scores_are_those_of_all_windows_written_out(path: Path, original: bool) -> None:
    lines = path.read_text().splitlines()
    lines[81] = lines[81].rpartition(",")[0] + ","  # a missing value is not scored
    write(path, "\n".join(lines))
    forecast = forecaster(path, quantiles=[0.1, 0.5, 0.9])
    config = forecast.bundle.config
    [series] = given = forecast.checked(path)
    scores = forecast_scores(forecast, forecast.windows(given, hour(70)), original=original)
    found = {(each.method, each.metric): each.value for each in scores}
    unit = np.ones(2) if original else np.array(config.deviations)
    starts = range(70, 96)
    errors: dict[str, list[np.ndarray]] = {"model": [], "last value": [], "seasonal naive (24)": []}
    pinball, inside = [], []
    for start in starts:
        rows = slice(start, start + 5)
        seen = series.observed[rows]
        truth = np.where(seen, series.values[rows], np.nan)
        made = forecast(series, start=str(series.times[start]).replace("T", " "))
        low, high = made.quantiles[0.1], made.quantiles[0.9]
        errors["model"].append((made.values - truth) / unit)
        errors["last value"].append((series.values[start - 1] - truth) / unit)
        season = series.values[start - 24 : start - 24 + 5]
        errors["seasonal naive (24)"].append((season - truth) / unit)
        inside.append(np.where(seen, (low <= truth) & (truth <= high), np.nan))
        for level in (0.1, 0.5, 0.9):
            error = (truth - made.quantiles[level]) / unit
            pinball.append(np.maximum(level * error, (level - 1) * error))
    naive = np.array(config.naive_errors) * (config.deviations if original else 1)
    for method, several in errors.items():
        every = np.stack(several)
        assert found[method, "MSE"] == pytest.approx(np.nanmean(every**2), rel=1e-4)
        assert found[method, "MAE"] == pytest.approx(np.nanmean(abs(every)), rel=1e-4)
        by_column = np.nanmean(abs(every), axis=(0, 1))
        assert found[method, "MASE"] == pytest.approx((by_column / naive).mean(), rel=1e-4)
    assert found["model", "pinball loss"] == pytest.approx(np.nanmean(pinball), rel=1e-4)
    share = found["model", "coverage of the 80 % interval, %"]
    assert share == pytest.approx(100 * np.nanmean(inside))
    assert f"windows:{len(starts)}|steps:5|columns:2" in scores[0].signature


def test_columns_that_are_only_read_are_not_scored(path: Path) -> None:
    forecast = forecaster(path, "series-recurrent", targets=1, quantiles=[0.1, 0.5, 0.9])
    series, scale = read_series([str(path)]), forecast.bundle.scales[""]
    scores = forecast_scores(forecast, forecast.windows(forecast.checked(path), hour(60)))
    assert "columns:1|" in scores[0].signature
    last = {each.metric: each.value for each in scores if each.method == "last value"}
    errors = [
        series.values[start : start + 5, 0] - series.values[start - 1, 0] for start in range(60, 96)
    ]
    assert last["MAE"] == pytest.approx(abs(np.array(errors)).mean() / scale.deviation[0], rel=1e-4)


@pytest.mark.parametrize(
    ("quantiles", "pairs"),
    [
        ([0.05, 0.1, 0.5, 0.9], {"80": (1, 3)}),
        ([0.025, 0.25, 0.5, 0.75, 0.975], {"95": (0, 4), "50": (1, 3)}),
        ([0.0125, 0.5, 0.9875], {"97.5": (0, 2)}),
        ([0.1, 0.5, 0.8], {}),
    ],
)
def test_every_symmetric_interval_has_its_coverage(
    quantiles: list[float], pairs: dict[str, tuple[int, int]], path: Path
) -> None:
    forecast = forecaster(path, quantiles=quantiles)
    given = forecast.windows(forecast.checked(path), hour(60))
    found = {each.metric: each.value for each in forecast_scores(forecast, given)}
    assert [name for name in found if name.startswith("coverage")] == [
        f"coverage of the {share} % interval, %" for share in pairs
    ]
    [(_, batch, made)] = forecast.predictions(given)
    target = batch.target.numpy()
    for share, (low, high) in pairs.items():
        inside = (made[..., low] <= target) & (target <= made[..., high])
        assert found[f"coverage of the {share} % interval, %"] == pytest.approx(100 * inside.mean())


def with_season(path: Path, season: int) -> SeriesForecaster:
    bundle = forecaster(path).bundle
    config = bundle.config.model_copy(update={"season": season})
    return SeriesForecaster(replace(bundle, config=config))


def test_the_seasonal_forecast_reads_a_season_that_is_longer_than_the_context(path: Path) -> None:
    forecast, season = with_season(path, 50), 50
    [series] = given = forecast.checked(path)
    scores = forecast_scores(forecast, forecast.windows(given, hour(50)))
    found = {(each.method, each.metric): each.value for each in scores}
    errors = [
        (series.values[start - season : start - season + 5] - series.values[start : start + 5])
        / forecast.bundle.config.deviations
        for start in range(50, 96)
    ]
    assert found["seasonal naive (50)", "MAE"] == pytest.approx(np.abs(errors).mean(), rel=1e-4)
    assert "|season:50|" in scores[0].signature
    short = with_season(path, 3)
    scores = forecast_scores(short, short.windows(given, hour(60)))
    naive = {each.metric: each.value for each in scores if each.method == "seasonal naive (3)"}
    errors = [
        series.values[start - 3 + np.arange(5) % 3] - series.values[start : start + 5]
        for start in range(60, 96)
    ]
    errors = [each / forecast.bundle.config.deviations for each in errors]
    assert naive["MAE"] == pytest.approx(np.abs(errors).mean(), rel=1e-4)


def test_a_season_that_the_first_forecast_has_not_before_it_is_named(path: Path) -> None:
    forecast = with_season(path, 50)
    given = forecast.checked(path)
    every = forecast.windows(given)
    assert [each.method for each in forecast_scores(forecast, every) if each.metric == "MAE"] == [
        "model", "last value",
    ]  # fmt: skip
    assert why_without_season(every, 50).startswith(
        "the seasonal naive forecast has no scores: it repeats the 50 rows before a forecast, and "
        "the first forecast has 30 rows before it"
    )
    assert why_without_season(forecast.windows(given, hour(50)), 50) == ""
    assert why_without_season(every, 30) == ""


def test_without_a_window_the_reason_is_named(path: Path, tmp_path: Path) -> None:
    forecast = forecaster(path)
    given = forecast.checked(path)
    for row in (97, 100):
        assert "needs 30 rows before it" in refusal(forecast.windows, given, hour(row))
    assert len(forecast.windows(given, hour(95)).starts) == 1
    lines = path.read_text().splitlines()
    ends = [*lines[:81], *(f"{line.partition(',')[0]},," for line in lines[81:])]
    gap = forecast.checked(write(tmp_path / "gap.csv", "\n".join(ends)))
    assert "a value in its 5 steps from 2024" in refusal(forecast.windows, gap, hour(80))
    assert len(forecast.windows(gap, hour(79)).starts) == 1
    short = forecast.checked(write(tmp_path / "short.csv", "\n".join(lines[:31])))
    assert "; give more rows" in refusal(forecast.windows, short)
    gap = [*lines[:31], *(f"{line.partition(',')[0]},," for line in lines[31:])]
    short = forecast.checked(write(tmp_path / "none.csv", "\n".join(gap)))
    assert "; give more rows" in refusal(forecast.windows, short)
