"""Checkpoints: all that it takes to go on as if nothing had happened.

    checkpoints/update-00001200/
        weights.safetensors     float32 weights
        optimizer.safetensors   Adam's moments
        state.json              where the run stands, and the checksums of the two files
    checkpoints/best.safetensors    the weights that validated best so far

A checkpoint is written beside its place, synchronised and renamed: it is there as a whole or not at
all. No pickle is read or written.
"""

import dataclasses
import hashlib
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from crosshead.errors import BundleError
from crosshead.files import atomic_write, explained, make_directory, synchronise
from crosshead.training.optimizer import Optimizer

WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
BEST = "best.safetensors"


@dataclass
class Progress:
    """Where a run stands."""

    update: int = 0
    epoch: int = 0
    """Epochs completed."""
    batch: int = 0
    """Batches of the epoch under way that were used."""
    batches: int = 0
    """Batches that it has, once it has begun."""
    seconds: float = 0.0
    """Time spent in training, over all the runs it took."""
    target_tokens: int = 0
    parts: int = 1
    skipped: int = 0
    """Updates left out because a gradient was not finite."""
    best_update: int = 0
    best_score: list[float] | None = None
    """What was maximised, and what decides between equals."""
    since_best: int = 0
    """Validations since the best one, after the warm-up."""
    validated: int = 0
    """The update of the last validation."""
    interim: int = 0
    """The update of the checkpoint that the next one replaces; 0 where there is none."""
    log_bytes: int = 0
    """The length of log.jsonl when this was written."""
    longest_source: int = 0
    """Tokens of the longest source that the weights have seen, before fine-tuning as well."""
    pairs: int = 0
    """Pairs that are trained on."""
    text_sha256: str = ""
    """Of what is trained and validated on, as ids."""
    commands: list[str] = field(default_factory=list)
    """What was typed: the command that began the run, and those that resumed it."""
    names: list[str] = field(default_factory=list)
    """The files of the text, as they were named when the run began."""

    @property
    def epochs(self) -> float:
        """Epochs completed, and the share of the one under way."""
        return self.epoch + (self.batch / self.batches if self.batches else 0.0)


def save_checkpoint(
    directory: Path, optimizer: Optimizer, progress: Progress, keep: int, replaced: int = 0
) -> Path:
    """Write the checkpoint of this moment, then remove all but the newest `keep`.

    The checkpoint of update `replaced`, if it is another, is removed as well. Raises `UserError`
    where the disk is full or cannot be written; earlier checkpoints stay whole.
    """
    place = _place(directory, progress.update)
    beside = place.with_name(f".{place.name}.tmp")
    with explained(beside):
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
    contents = {
        WEIGHTS: safetensors.torch.save(_on_cpu(optimizer.weights())),
        OPTIMIZER: safetensors.torch.save(_on_cpu(optimizer.state())),
    }
    state = {
        "progress": dataclasses.asdict(progress),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()},
    }
    contents[STATE] = (json.dumps(state, indent=2) + "\n").encode()
    try:
        for name, data in contents.items():
            atomic_write(beside / name, data)
        with explained(place):
            shutil.rmtree(place, ignore_errors=True)
            beside.rename(place)
            synchronise(directory)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    if replaced and replaced != progress.update:
        shutil.rmtree(_place(directory, replaced), ignore_errors=True)
    for old in list_checkpoints(directory)[:-keep]:
        shutil.rmtree(old)
    return place


def list_checkpoints(directory: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted(place for place in directory.glob("update-*") if (place / STATE).is_file())


def load_checkpoint(place: Path, optimizer: Optimizer) -> Progress:
    """Put weights and moments back, and return where the run stood.

    Random states are no part of it: what is drawn is a function of seed and update.
    Raises `BundleError` naming the file that is missing, damaged or of another model.
    """
    progress, weights = _read_state(place), load_weights(place)
    state = _read_tensors(place, OPTIMIZER)
    if weights.keys() != optimizer.masters.keys():
        raise BundleError(f"{place / WEIGHTS}: its tensors are not those of the recipe's model")
    for name, master in optimizer.masters.items():
        if weights[name].shape != master.shape:
            raise BundleError(
                f"{place / WEIGHTS}: {name} has shape {tuple(weights[name].shape)}, the recipe's "
                f"model {tuple(master.shape)}"
            )
    optimizer.set_weights(weights)
    optimizer.set_state(state)
    return progress


def save_best(directory: Path, weights: dict[str, Tensor]) -> None:
    """Keep the weights that validated best so far, in place of the earlier ones."""
    make_directory(directory)
    atomic_write(directory / BEST, safetensors.torch.save(_on_cpu(weights)))


def load_best(directory: Path) -> dict[str, Tensor]:
    """The weights that validated best; raises `BundleError` where they are missing or damaged."""
    path = directory / BEST
    try:
        return safetensors.torch.load(path.read_bytes())
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
    except SafetensorError as error:
        reason = f"damaged ({error})"
    raise BundleError(
        f"{path}: {reason}; the best weights so far are lost with it: copy it back, or begin again "
        "with --force"
    )


def load_weights(place: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint; raises `BundleError` where they are missing or damaged."""
    return _read_tensors(place, WEIGHTS)


def average_weights(several: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of weights of one shape (Vaswani et al. 2017, section 6.1), summed in float64."""
    return {
        name: (sum(weights[name].double() for weights in several) / len(several)).float()  # type: ignore[union-attr]
        for name in several[0]
    }


def _place(directory: Path, update: int) -> Path:
    return directory / f"update-{update:08d}"


def _read_state(place: Path) -> Progress:
    try:
        return Progress(**json.loads((place / STATE).read_bytes())["progress"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{place / STATE}: cannot be read ({error}); remove {place}") from None


def _read_tensors(place: Path, name: str) -> dict[str, Tensor]:
    path = place / name
    try:
        expected = json.loads((place / STATE).read_bytes())["sha256"][name]
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != expected:
            raise BundleError(
                f"{path}: damaged (its checksum differs); remove {place} to go on from the "
                "checkpoint before it"
            )
        return safetensors.torch.load(data)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise BundleError(f"{path}: cannot be read ({error}); remove {place}") from None


def _on_cpu(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to("cpu").contiguous() for name, tensor in tensors.items()}
