"""What the tests of reliability share: small optimisers and checkpoints, corpora, the program."""

import hashlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from crosshead.errors import UserError
from crosshead.recipe.train import TrainConfig
from crosshead.training.checkpoint import save_checkpoint
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from tests import preloaded

ROOT = Path(__file__).parent.parent.parent
BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"
SEALED = ROOT / "tests" / "fixtures" / "bundle-format-1-sealed"
PROGRAM = [sys.executable, "-m", "crosshead"]
SEED = 1
"""Of every random choice of these tests."""


def counts(quick: int, full: int) -> pytest.MarkDecorator:
    """The argument `count` of a test: `quick` by default, `full` under `make test-slow`."""
    return pytest.mark.parametrize("count", [quick, pytest.param(full, marks=pytest.mark.slow)])


def small_optimizer(width: int = 16) -> Optimizer:
    """Of a model whose weights are what the last `take_step` gave them."""
    torch.manual_seed(SEED)
    model = nn.Sequential(nn.Linear(width, width), nn.Linear(width, 3))
    return Optimizer(model, TrainConfig(max_updates=1, learning_rate=0.1))


def take_step(optimizer: Optimizer) -> None:
    """An update whose gradients are all 1."""
    for parameter in optimizer.parameters.values():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(0.01)


def save_two(directory: Path, width: int = 16) -> tuple[Path, Path]:
    """The checkpoints of two updates of one run, 10 and 20."""
    optimizer = small_optimizer(width)
    places = []
    for update in (10, 20):
        take_step(optimizer)
        progress = Progress(update, predictions=100 * update, commands=["crosshead train"])
        places.append(save_checkpoint(directory, optimizer, progress, keep=5))
    return places[0], places[1]


def tree(folder: Path) -> dict[str, str]:
    """The checksum of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def environment() -> dict[str, str]:
    """That of a program that is started here: this checkout, one thread."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}


def program(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `crosshead` to its end."""
    command = [*preloaded.command(), "-m", "crosshead", *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


def write_corpus(folder: Path, pairs: int = 160) -> list[str]:
    """Write pairs of made-up sentences; the flags that name the files come back."""
    rng = random.Random(SEED)
    syllables = [a + b for a in "bdkmst" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(60)]
    lines = [" ".join(rng.choices(words, k=rng.randint(2, 7))) for _ in range(pairs)]
    (folder / "source.txt").write_text("\n".join(lines) + "\n")
    (folder / "target.txt").write_text("\n".join(line[::-1] for line in lines) + "\n")
    return ["--source", str(folder / "source.txt"), "--target", str(folder / "target.txt")]


SETTINGS = {
    "tokenizer.kind": "bpe", "tokenizer.vocab_size": "320", "tokenizer.sampling": "0.1",
    "model.encoder_layers": "1", "model.decoder_layers": "1", "model.d_model": "16",
    "model.d_ff": "16", "model.heads": "2", "model.dropout": "0.2", "train.batch_tokens": "400",
    "train.accumulate": "2", "train.schedule": "inverse-sqrt", "train.learning_rate": "0.03",
    "train.warmup": "5",
    "train.max_updates": "30", "train.valid_every": "10", "train.checkpoint_every": "3",
    "train.keep_last": "3", "train.average": "3", "train.patience": "0", "train.metric": "loss",
    "train.precision": "float32", "train.log_every": "1", "data.valid_size": "6",
    "decode.max_extra": "3",
}  # fmt: skip
"""Of a run of a few seconds: dropout, sampled subwords, batches in two microbatches, an average."""


def train_flags(folder: Path, out: Path, **changed: str) -> list[str]:
    """The flags of `crosshead train` for the corpus in `folder`."""
    values = SETTINGS | {f"train.{key}": value for key, value in changed.items()}
    assigned = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    files = ["--source", str(folder / "source.txt"), "--target", str(folder / "target.txt")]
    same = ["--preset", "tiny", "--threads", "1", "--device", "cpu"]
    return [*files, "--out", str(out), *same, *assigned]


def said(work: Callable[[], object]) -> str:
    """What a process of its own says of a mistake in `work`; nothing where there is none."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            work()
        except UserError as error:
            os.write(writer, str(error).encode())
        except BaseException as error:  # whatever it is, it is not for the user
            os.write(writer, f"traceback: {error!r}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = file.read()
    os.waitpid(child, 0)
    return found


def fresh_copy(folder: Path, place: Path) -> Path:
    """A copy of a folder, in the place of an earlier one."""
    shutil.rmtree(place, ignore_errors=True)
    return Path(shutil.copytree(folder, place))
