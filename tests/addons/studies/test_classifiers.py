import dataclasses
from pathlib import Path

import pytest
import torch

from crosshead.addons.studies import runs
from crosshead.addons.studies.classifiers import (
    ARCHIVE,
    BATCH,
    KINDS,
    SIZES,
    UPDATES,
    ImageRuns,
    cifar10,
    made_up,
)
from crosshead.addons.studies.effort import FULL, QUICK, Effort
from crosshead.addons.vision.models.classifier import build_classifier
from crosshead.addons.vision.models.image_encoder import ImageShape

WHOLE = ImageRuns(Path("x.zip"), Path("runs"), 1, SIZES, 32, 1)


def quick_runs(folder: Path) -> ImageRuns:
    found = cifar10(QUICK, 1, folder, print)
    assert found is not None
    return found


def test_runs_of_other_settings_have_places_of_their_own() -> None:
    several = (WHOLE, dataclasses.replace(WHOLE, share=0.5), dataclasses.replace(WHOLE, seed=2))
    places = {each.place(*job) for each in several for job in each.jobs}
    assert len(places) == 3 * len(KINDS) * len(SIZES)


def test_runs_differ_in_the_model_and_the_number_of_images_alone() -> None:
    recipes = [WHOLE.recipe(*job) for job in WHOLE.jobs]
    assert len({each.train.model_dump_json() for each in recipes}) == 1
    data = [{**each.data.model_dump(), "train_images": None} for each in recipes]
    assert all(each == data[0] for each in data)
    for (kind, size), recipe in zip(WHOLE.jobs, recipes, strict=True):
        assert recipe.data.train_images == size  # type: ignore[attr-defined]
        assert recipe.model.architecture == KINDS[kind].model["architecture"]
        tokens = recipe.model.tokens(ImageShape(32))  # type: ignore[attr-defined]
        assert recipe.train.batch_tokens == BATCH * tokens
        assert recipe.train.max_updates == UPDATES


def test_the_models_are_about_the_same_size() -> None:
    weights = []
    for kind in KINDS:
        with torch.device("meta"):
            model = build_classifier(WHOLE.recipe(kind, 1000).model, ImageShape(32), 10)
        weights.append(sum(each.numel() for each in model.parameters()))
    assert max(weights) < 1.15 * min(weights)


def test_a_run_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = dataclasses.replace(quick_runs(tmp_path), sizes=(12,))
    monkeypatch.setattr("crosshead.addons.studies.classifiers.KINDS", {"patch": KINDS["patch"]})
    said: list[str] = []
    found = images.accuracies(said.append)
    [(job, accuracy)] = found.items()
    assert job == ("patch", 12) and 0 <= accuracy <= 100
    assert said == [f"Vision Transformer, patches, 12 images: {accuracy:.1f} % of the test images"]
    monkeypatch.setattr(runs, "train", lambda *arguments, **named: pytest.fail("trained again"))
    assert images.accuracies(said.append) == found
    assert images.finished(*job).is_file()


def test_images_that_are_not_there_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))
    said: list[str] = []
    assert cifar10(FULL, 1, tmp_path, said.append) is None
    assert len(said) == 1 and f"{ARCHIVE} not found in {tmp_path}" in said[0]
    made_up(tmp_path).rename(tmp_path / ARCHIVE)
    found = cifar10(Effort(0.5), 1, tmp_path, said.append)
    assert found is not None and found.sizes == SIZES and len(said) == 1
    assert found.recipe("convnet", 1000).train.max_updates == UPDATES // 2
