"""A package outside the repository adds a task with its verbs, by entry points alone."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

INSTALLED = {
    "METADATA": "Metadata-Version: 2.1\nName: crosshead-waves\nVersion: 1.0\n",
    "entry_points.txt": """
[crosshead.tasks]
waves = crosshead_waves.task:register

[crosshead.verbs]
waves = crosshead_waves.verbs
""",
}
"""What pip writes beside the modules of a package."""
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


COMMANDS = """
import json, sys
from crosshead.cli import run
for typed in json.loads(sys.argv[1]):
    if code := run(typed):
        sys.exit(code)
    print(end=sys.argv[2], flush=True)
"""
END = "the end of a command"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the installed package."""
    package, information = (
        tmp_path / "site" / name for name in ("crosshead_waves", "crosshead_waves-1.0.dist-info")
    )
    package.mkdir(parents=True)
    information.mkdir()
    for name, text in INSTALLED.items():
        (information / name).write_text(text)
    (package / "__init__.py").touch()
    (package / "verbs.py").write_text(VERBS)
    task = (ROOT / "tests" / "tasks" / "sample_task.py").read_text().replace("series:", "waves:")
    task = task.replace('"series"', '"waves"').replace("data.series", "data.waves")
    (package / "task.py").write_text(task)
    return package.parent


def said(site: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=site.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_package_adds_a_task_and_its_verbs(site: Path, tmp_path: Path) -> None:
    wave = [3 + 2 * math.sin(number / 5) for number in range(400)]
    (tmp_path / "wave.csv").write_text("value\n" + "".join(f"{each}\n" for each in wave))
    assert "continue" in said(site, "-m", "crosshead", "--help")
    commands = [
        ["train", "--help", "waves"],
        ["train", "--waves", "wave.csv", "--model", "waves", "--out", "run", "--threads", "1",
         "--precision", "float32"],
        ["continue", "run", "wave.csv"],
        ["evaluate", "run", "--wave", "wave.csv"],
    ]  # fmt: skip
    answers = said(site, "-c", COMMANDS, json.dumps(commands), END).split(END)
    options, summary, following, error, rest = answers
    assert "--waves F" in options
    assert "mean absolute error" in summary
    assert abs(float(following) - (3 + 2 * math.sin(400 / 5))) < 0.3
    assert float(error) < 0.3
    assert not rest
