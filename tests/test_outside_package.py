"""A package outside the repository adds a task with its verbs, by entry points alone."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "crosshead-waves"
version = "1.0"

[project.entry-points."crosshead.tasks"]
waves = "crosshead_waves.task:register"

[project.entry-points."crosshead.verbs"]
waves = "crosshead_waves.verbs"
"""
VERBS = '''
"""The verb `continue`, a kind of `evaluate`, and an option of `train`."""

from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.kinds import TRAIN, TrainOptions, evaluate
from crosshead.cli.options import BundleArgument, BundlesArgument, Files
from crosshead.cli.terminal import put

WavesOption = Annotated[Files, typer.Option(metavar="F", help="File of waves.")]

TRAIN.append(TrainOptions("waves", {"waves": WavesOption}))


def values(path):
    return [float(line) for line in Path(path).read_text().split()[1:]]


@app.command("continue")
def continue_(bundle: BundleArgument, wave: Path) -> None:
    """Print the next value of a wave."""
    import crosshead

    put(f"{crosshead.load(bundle)(values(wave)):.3f}\\n")


@evaluate.kind("wave", examples=("crosshead evaluate runs/wave --wave test.csv",))
def evaluate_waves(
    bundles: BundlesArgument,
    wave: Annotated[Path | None, typer.Option(help="File of a wave.")] = None,
) -> None:
    """Give --wave for a model of waves."""
    import crosshead

    found = values(wave)
    put(f"{abs(crosshead.load(bundles[0])(found[:-1]) - found[-1]):.3f}\\n")
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package."""
    folder = tmp_path_factory.mktemp("outside")
    package = folder / "project" / "crosshead_waves"
    package.mkdir(parents=True)
    (package.parent / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").touch()
    (package / "verbs.py").write_text(VERBS)
    task = (ROOT / "tests" / "tasks" / "sample_task.py").read_text().replace("series:", "waves:")
    task = task.replace('"series"', '"waves"').replace("data.series", "data.waves")
    (package / "task.py").write_text(task)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
         "--target", folder / "site", package.parent],
        check=True,
    )  # fmt: skip
    return folder / "site"


def said(site: Path, place: Path, *typed: str) -> str:
    environment = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "crosshead", *typed]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_package_adds_a_task_and_its_verbs(site: Path, tmp_path: Path) -> None:
    wave = [3 + 2 * math.sin(number / 5) for number in range(400)]
    (tmp_path / "wave.csv").write_text("value\n" + "".join(f"{each}\n" for each in wave))
    assert "continue" in said(site, tmp_path, "--help")
    assert "--waves F" in said(site, tmp_path, "train", "--help", "waves")
    typed = ["train", "--waves", "wave.csv", "--model", "waves", "--out", "run", "--threads", "1"]
    assert "mean absolute error" in said(site, tmp_path, *typed, "--precision", "float32")
    following = 3 + 2 * math.sin(400 / 5)
    assert abs(float(said(site, tmp_path, "continue", "run", "wave.csv")) - following) < 0.3
    assert float(said(site, tmp_path, "evaluate", "run", "--wave", "wave.csv")) < 0.3
