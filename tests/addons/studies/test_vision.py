import dataclasses
import math
from itertools import product
from pathlib import Path

import pytest
import torch

from crosshead.addons.studies.fitting import size
from crosshead.addons.studies.runs import Run
from crosshead.addons.studies.study import Trial
from crosshead.addons.studies.vision import (
    BANDS,
    BATCH,
    FEW,
    KINDS,
    MANY,
    NARROWS,
    PIXELS,
    SIZES,
    STEM,
    UPDATES,
    made_up,
    measured,
    run_on,
)
from crosshead.addons.vision.models.classifier import build_classifier
from crosshead.addons.vision.models.image_encoder import ImageShape
from tests.addons.studies.trials import full, quick

ACCURACIES = {
    "patch": (30.0, 40.0, 55.0),
    "stem": (36.0, 50.0, 66.0),
    "convnet": (40.0, 55.0, 60.0),
}
FOUND = {
    (kind, images): [accuracy]
    for kind, values in ACCURACIES.items()
    for images, accuracy in zip(SIZES, values, strict=True)
}


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))
    return made_up(tmp_path).rename(tmp_path / "cifar10-small.zip")


def test_quantities_compare_what_their_names_say() -> None:
    found = measured(FOUND, SIZES)
    assert set(found) == {band.name for band in BANDS}
    assert (found[FEW], found[MANY], found[NARROWS]) == (10, 5, 2)
    assert found[STEM] == 11


def test_a_difference_that_is_not_there_cannot_narrow() -> None:
    found = measured({**FOUND, ("convnet", SIZES[0]): [32.0]}, SIZES)
    assert found[FEW] == 2 and found[NARROWS] == "the network is not ahead with few images"
    found = measured({**FOUND, ("convnet", SIZES[0]): [30.0]}, SIZES)
    assert found[FEW] == 0 and isinstance(found[NARROWS], str)


def test_a_difference_that_changes_its_sign_narrows() -> None:
    found = measured({**FOUND, ("convnet", SIZES[-1]): [50.0]}, SIZES)
    assert found[MANY] == -5 and found[NARROWS] == math.inf


def plan(trial: Trial, archive: Path) -> dict[tuple[str, int], Run]:
    [seed] = trial.seeds(1)
    jobs = product(KINDS, SIZES)
    return {(kind, size): run_on(trial, archive, kind, size, seed) for kind, size in jobs}


def test_runs_of_other_settings_have_places_of_their_own(archive: Path) -> None:
    trials = (full(), quick(), dataclasses.replace(full(), seed=2))
    plans = [plan(trial, archive) for trial in trials]
    places = {run.place for each in plans for run in each.values()}
    assert len(places) == 3 * len(KINDS) * len(SIZES)


def test_runs_differ_in_the_model_and_the_number_of_images_alone(archive: Path) -> None:
    planned = {job: run.recipe for job, run in plan(full(), archive).items()}
    assert len({each.train.model_dump_json() for each in planned.values()}) == 1
    data = [{**each.data.model_dump(), "train_images": None} for each in planned.values()]
    assert all(each == data[0] for each in data)
    for (kind, images), recipe in planned.items():
        assert recipe.data.train_images == images  # type: ignore[attr-defined]
        assert recipe.model.architecture == KINDS[kind].model["architecture"]
        tokens = recipe.model.tokens(ImageShape(PIXELS))  # type: ignore[attr-defined]
        assert recipe.train.batch_tokens == BATCH * tokens
        assert recipe.train.max_updates == UPDATES


def test_the_models_are_about_the_same_size(archive: Path) -> None:
    planned, weights = plan(full(), archive), []
    for kind in KINDS:
        with torch.device("meta"):
            model = planned[kind, 1000].recipe.model
            weights.append(size(build_classifier(model, ImageShape(PIXELS), 10)))
    assert max(weights) < 1.15 * min(weights)
