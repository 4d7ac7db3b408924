"""A task of another kind than text, outside the package: the next value of a series of numbers.

It is all that such a task needs: its section of the recipe, its model, its data, its bundle, its
validation and its pipeline, and one call that registers them.
"""

import csv
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import SerializeAsAny
from torch import Tensor, nn

from crosshead import Recipe
from crosshead.bundle import Bundle, BundleConfig, BundleScore, CardFile, Words
from crosshead.data import DataSection
from crosshead.errors import DataError
from crosshead.models import Model, ModelConfig
from crosshead.pipelines import Pipeline
from crosshead.recipe.train import TrainConfig
from crosshead.system.lines import file_sha256
from crosshead.system.stored import read_stored
from crosshead.tasks import (
    LOSS,
    Corpus,
    Findings,
    Loss,
    Metric,
    Sample,
    Task,
    Validation,
    Validator,
    register_task,
)

RANGE, HELD_OUT = "range.json", "held-out-windows.txt"

MAE = Metric("mae", "mean absolute error", higher_is_better=False, digits=4)


class SeriesData(DataSection):
    file_keys: ClassVar[tuple[str, ...]] = ("series",)
    series: list[str]
    column: str = "value"


class SeriesRecipe(Recipe):
    data: SerializeAsAny[SeriesData]


class SeriesConfig(ModelConfig):
    task: ClassVar[str] = "series"
    architecture: Literal["series"] = "series"
    window: int = 8

    def shape(self) -> str:
        return f"windows of {self.window}, d_model {self.d_model}"


class SeriesModel(Model):
    def __init__(self, config: SeriesConfig) -> None:
        super().__init__()
        self.config = config
        self.inner = nn.Linear(config.window, config.d_model)
        self.outer = nn.Linear(config.d_model, 1)

    def forward(self, windows: Tensor) -> Tensor:
        hidden = torch.tanh(self.inner(windows.to(self.inner.weight.dtype)))
        return self.outer(hidden)[:, 0]


class SeriesBundleConfig(BundleConfig):
    mean: float
    deviation: float


@dataclass(frozen=True)
class SeriesBundle(Bundle):
    """A forecaster, with the range of its training series in a file of its own."""

    config: SeriesBundleConfig
    range: bytes
    config_type: ClassVar[type[BundleConfig]] = SeriesBundleConfig
    own_files: ClassVar[tuple[str, ...]] = (RANGE,)

    @classmethod
    def build(cls, config: BundleConfig) -> Model:
        assert isinstance(config.model, SeriesConfig)
        return SeriesModel(config.model)

    @classmethod
    def read(cls, directory: Path, config: BundleConfig) -> dict[str, Any]:
        return {"range": read_stored(directory / RANGE)}

    def files(self) -> dict[str, bytes]:
        return {RANGE: self.range}


@dataclass(frozen=True)
class Windows:
    """Batches of windows: an epoch, and, of single rows, a batch."""

    inputs: Tensor
    following: Tensor
    row, bound = "window", "model.window"

    @property
    def lengths(self) -> np.ndarray:
        return np.full((len(self.inputs), 1), self.inputs.shape[1])

    @property
    def count(self) -> int:
        return len(self.inputs)

    def plan(self, max_tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng([seed, epoch]).permutation(self.count)
        size = max(1, max_tokens // self.inputs.shape[1])
        return np.split(order, range(size, self.count, size))

    def collate(self, rows: Sequence[int]) -> "Windows":
        return Windows(self.inputs[list(rows)], self.following[list(rows)])

    def extent(self, row: int) -> str:
        return f"{self.inputs.shape[1]} values"

    def to(self, device: torch.device) -> "Windows":
        return Windows(self.inputs.to(device), self.following.to(device))


@dataclass(frozen=True)
class SeriesCorpus(Corpus):
    train: Windows
    valid: Windows
    mean: float
    deviation: float
    range: bytes
    kind: ClassVar[type[Bundle]] = SeriesBundle
    unit, unit_name = "window", "windows"

    @property
    def size(self) -> int:
        return self.train.count

    @property
    def longest_input(self) -> int:
        return self.train.inputs.shape[1]

    @property
    def lengths(self) -> np.ndarray:
        return self.train.lengths

    def epochs(self, recipe: Recipe) -> Callable[[int], Windows]:
        return lambda epoch: self.train

    def sha256(self) -> str:
        parts = self.train.inputs, self.valid.inputs, self.valid.following
        return hashlib.sha256(b"".join(each.numpy().tobytes() for each in parts)).hexdigest()

    def origin(self, row: int) -> str:
        return f"{self.files[0].path}:{row + 2}"

    def opening(self, data: SeriesData) -> list[str]:
        return [f"{self.size:,} windows to train on; validation: {self.validation(data)}"]

    def validation(self, data: SeriesData) -> str:
        return f"the last {self.valid.count:,} windows"

    def bundle_config(self, recipe: Recipe, longest_input: int) -> BundleConfig:
        return SeriesBundleConfig(
            task="series", model=recipe.model, mean=self.mean, deviation=self.deviation
        )

    def bundle(self, config: BundleConfig, model: Model) -> SeriesBundle:
        return SeriesBundle(config, model, self.range)

    def left_out(self) -> dict[str, int]:
        return {"too late": self.valid.count}

    def write_files(self, out: Path, names: Mapping[str, str]) -> None:
        (out / RANGE).write_bytes(self.range)
        (out / HELD_OUT).write_text("\n".join(names.values()))


class SeriesValidator(Validator[SeriesRecipe, SeriesCorpus, SeriesBundle]):
    def search_description(self) -> str:
        return "one step ahead"

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        self.bundle_of(weights)
        return Validation(self.means([self.corpus.valid]))

    def findings(self, weights: dict[str, Tensor]) -> Findings:
        found = self.validate(weights).values
        score = BundleScore(
            metric="MSE", value=found["loss"], signature="steps:1", test_set="validation"
        )
        made = self.bundle.model(self.corpus.valid.inputs[:1]).item()
        wanted = self.corpus.valid.following[0].item()
        sample = Sample("the first window", f"{made:.3f}", f"{wanted:.3f}")
        return Findings([score], samples=[sample])


class Forecaster(Pipeline):
    does, verb = "forecasts a series of numbers", "forecast"
    usage = "Forecast in Python: crosshead.load('{bundle}')"

    def __call__(self, values: Sequence[float]) -> float:
        config = self.bundle.config
        assert isinstance(config, SeriesBundleConfig) and isinstance(config.model, SeriesConfig)
        window = torch.tensor(values[-config.model.window :])
        with torch.inference_mode():
            found = self.model(((window - config.mean) / config.deviation)[None])
        return float(found * config.deviation + config.mean)

    @classmethod
    def words(cls, config: SeriesBundleConfig) -> Words:
        return Words(
            does="forecasts a series of numbers",
            hub_task="time-series-forecasting",
            command="crosshead info DIR",
            variable="forecast",
            call="forecast(values)",
        )


class Series(Task):
    name: ClassVar[str] = "series"
    recipe: ClassVar[type[Recipe]] = SeriesRecipe
    bundle: ClassVar[type[Bundle]] = SeriesBundle
    pipeline: ClassVar[type[Pipeline]] = Forecaster
    validator: ClassVar[type[Validator[Any, Any, Any]]] = SeriesValidator
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, MAE)
    chooses: ClassVar[str] = "mae"
    architecture: ClassVar[str] = "series"
    units: ClassVar[str] = "values"
    counter: ClassVar[str] = "values"
    run_files: ClassVar[tuple[str, ...]] = (HELD_OUT,)

    def read(
        self,
        recipe: SeriesRecipe,
        base: Bundle | None,
        resumed: Path | None,
        say: Callable[[str], None] = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> SeriesCorpus:
        files, values = [], []
        for name in recipe.data.series:
            with open(name, newline="") as file:
                rows = [float(row[recipe.data.column]) for row in csv.DictReader(file)]
            files.append(CardFile(name, len(rows), file_sha256(Path(name))))
            values += rows
        assert isinstance(recipe.model, SeriesConfig)
        window = recipe.model.window
        if len(values) < 4 * window:
            raise DataError(f"{recipe.data.series[0]}: {len(values)} values are too few")
        series = torch.tensor(values)
        mean, deviation = series.mean().item(), series.std().item()
        series = (series - mean) / deviation
        inputs, following = series.unfold(0, window, 1)[:-1], series[window:]
        cut = len(inputs) * 9 // 10
        return SeriesCorpus(
            files,
            Windows(inputs[:cut], following[:cut]),
            Windows(inputs[cut:], following[cut:]),
            mean,
            deviation,
            json.dumps([min(values), max(values)]).encode(),
        )

    def loss(self, model: SeriesModel, batch: Windows, settings: TrainConfig) -> Loss:
        error = model(batch.inputs).float() - batch.following
        return Loss({"loss": (error**2).sum(), "mae": error.abs().sum()}, batch.count)


def register() -> None:
    """Make the task known to every command."""
    train = {
        "learning_rate": 0.01,
        "max_updates": 200,
        "batch_tokens": 512,
        "valid_every": 50,
        "warmup": 5,
    }
    register_task(
        Series(), {SeriesConfig: SeriesModel}, {"tiny": {"model": {"d_model": 32}, "train": train}}
    )
