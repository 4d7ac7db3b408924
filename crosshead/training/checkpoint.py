"""Checkpoints: the state from which a run continues as if it had never stopped.

    checkpoints/update-00001200/
        weights.safetensors     float32 weights
        optimizer.safetensors   the optimiser's moments, and the moving average with `train.ema`
        state.json              the progress of the run, and the checksums of all three files
    checkpoints/best.safetensors    the weights that validated best so far, with their checksum
    checkpoints/.update-*           a checkpoint that is unfinished, or about to be removed

A checkpoint is written under a temporary name, synchronised to disk and renamed. It therefore
exists as a whole or not at all. No pickle is read or written.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor

from crosshead.bundle.io import BEST, best_file, read_best
from crosshead.bundle.weights import TensorFile, serialized
from crosshead.caller import option
from crosshead.errors import BundleError, DamagedBundle
from crosshead.system.files import (
    atomic_write,
    atomic_write_all,
    explain_os_errors,
    hide,
    make_directory,
    output_directory,
    remove,
    remove_leftovers,
)
from crosshead.system.stored import LARGEST_METADATA, open_regular
from crosshead.training.optimizer import Optimizer, averages_in
from crosshead.training.progress import Progress

CHECKPOINT_FILES = ("weights.safetensors", "optimizer.safetensors", "state.json")
WEIGHTS, OPTIMIZER, STATE = CHECKPOINT_FILES
_SHA256 = "sha256"


class DamagedCheckpoint(BundleError):
    """A checkpoint whose file `path` is missing or damaged; `found` describes the damage."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(f"{path}: {found}; remove {path.parent} to continue without it")
        self.path, self.found = path, found


_PROGRESS = TypeAdapter(Progress)


def save_checkpoint(
    directory: Path, optimizer: Optimizer, progress: Progress, keep: int, replaced: int = 0
) -> Path:
    """Write a checkpoint of the current state, and remove all but the newest `keep` of them."""
    place = _checkpoint_path(directory, progress.update)
    weights, state = optimizer.contents()
    contents = {
        WEIGHTS: serialized(_on_cpu(weights)),
        OPTIMIZER: serialized(_on_cpu(state)),
    }
    contents[STATE] = _state(
        _stored(progress),
        {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()},
    )
    remove_leftovers(directory)
    if place.is_dir():
        # The same update has the same tensors, so a kill between two of these renames does no harm.
        atomic_write_all(place, contents)
    else:
        with output_directory(place) as hidden:
            atomic_write_all(hidden, contents)
    with explain_os_errors(directory):
        interim = _checkpoint_path(directory, replaced)
        if interim.is_dir() and interim != place:
            remove(hide(interim))
        for old in list_checkpoints(directory)[:-keep]:
            remove(hide(old))
    return place


def save_state(directory: Path, progress: Progress) -> None:
    """Write `progress` into the checkpoint of its update; the tensors stay as they are."""
    place = _checkpoint_path(directory, progress.update)
    _, sums = _read_state(place)
    atomic_write(place / STATE, _state(_stored(progress), sums))


def list_checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoints of a run, oldest first, including damaged ones."""
    return sorted(place for place in directory.glob("update-*") if place.is_dir())


def newest_state(directory: Path) -> tuple[Path, Progress] | None:
    """Return the newest undamaged state.json and its progress, or None if there is none."""
    for place in reversed(list_checkpoints(directory)):
        with contextlib.suppress(DamagedCheckpoint):
            return place / STATE, _read_state(place)[0]
    return None


def load_newest(directory: Path, optimizer: Optimizer) -> tuple[Progress, list[str]]:
    """Load the newest undamaged checkpoint.

    The function renames newer, damaged checkpoints to the name of an unfinished checkpoint, so that
    they are not averaged and do not displace good ones; the next save removes them. It also removes
    the checkpoint before the loaded one if that was an interim checkpoint.
    """
    damaged: list[DamagedCheckpoint] = []
    places = list_checkpoints(directory)
    while places:
        place = places.pop()
        try:
            progress = load_checkpoint(place, optimizer)
        except DamagedCheckpoint as error:
            damaged.append(error)
            continue
        with explain_os_errors(directory):
            for each in damaged:
                hide(each.path.parent)
            if places and _is_interim(places[-1]):
                remove(hide(places[-1]))
        return progress, [f"{each.path}: {each.found}; passed over" for each in damaged]
    if not damaged:
        raise BundleError(f"{directory}: holds no checkpoint; begin again with {option('force')}")
    raise BundleError(
        f"{damaged[0].path}: {damaged[0].found}, and no earlier checkpoint is whole; copy one "
        f"back, or begin again with {option('force')}"
    )


def load_checkpoint(place: Path, optimizer: Optimizer) -> Progress:
    """Load weights and moments from a checkpoint, and return the progress of the run.

    A checkpoint stores no random state, because random draws depend on seed and update alone.
    """
    progress, sums = _read_state(place)
    weights = _read_tensors(place / WEIGHTS, sums[WEIGHTS])
    state = _read_tensors(place / OPTIMIZER, sums[OPTIMIZER])
    if weights.keys() != optimizer.masters.keys():
        raise BundleError(f"{place / WEIGHTS}: its tensors do not fit the recipe's model")
    for name, master in optimizer.masters.items():
        if weights[name].shape != master.shape:
            raise BundleError(
                f"{place / WEIGHTS}: {name} has shape {tuple(weights[name].shape)}, the recipe's "
                f"model {tuple(master.shape)}"
            )
        if weights[name].dtype != master.dtype:
            raise DamagedCheckpoint(
                place / WEIGHTS, f"{name} is {weights[name].dtype}, expected {master.dtype}"
            )
    _check_moments(state, optimizer, place / OPTIMIZER)
    optimizer.set_weights(weights)
    optimizer.set_state(state)
    return progress


def save_best(
    directory: Path, weights: dict[str, Tensor], settings: str = "", update: int = 0
) -> None:
    """Write the weights that validated best so far, and replace the earlier ones."""
    make_directory(directory)
    atomic_write(directory / BEST, best_file(_on_cpu(weights), settings, update))


def load_best(directory: Path) -> dict[str, Tensor]:
    """Return the best weights so far; raise `BundleError` if they are missing or damaged."""
    try:
        return read_best(directory / BEST).weights
    except DamagedBundle as error:
        raise BundleError(
            f"{directory / BEST}: {error.found}; copy it back, or use {option('resume')}, which "
            "rebuilds what it can"
        ) from None


def load_weights(place: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint; raise `DamagedCheckpoint` if they are damaged."""
    _, sums = _read_state(place)
    return _read_tensors(place / WEIGHTS, sums[WEIGHTS])


def load_validated(place: Path) -> dict[str, Tensor]:
    """Return the weights that validation saw: the moving average, or the weights without one."""
    _, sums = _read_state(place)
    return averages_in(_read_tensors(place / OPTIMIZER, sums[OPTIMIZER])) or load_weights(place)


def average_weights(several: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of several sets of weights, summed in float64 (Vaswani et al. 2017, 6.1)."""
    return {
        name: (sum(weights[name].double() for weights in several) / len(several)).float()  # type: ignore[union-attr]
        for name in several[0]
    }


def _checkpoint_path(directory: Path, update: int) -> Path:
    return directory / f"update-{update:08d}"


def _is_interim(place: Path) -> bool:
    """Return True for an interim checkpoint, which the next checkpoint replaces."""
    with contextlib.suppress(DamagedCheckpoint):
        progress, _ = _read_state(place)
        return progress.interim == progress.update
    return False


def _stored(progress: Progress) -> dict[str, Any]:
    """Return the values of `progress` by their names in state.json."""
    found: dict[str, Any] = _PROGRESS.dump_python(progress, by_alias=True, warnings=False)
    return found


def _state(progress: dict[str, Any], sums: dict[str, str]) -> bytes:
    """Return the bytes of state.json, which include a checksum of its own content."""
    values = {"progress": progress, _SHA256: sums}
    own = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**values, "state_sha256": own}, indent=2) + "\n").encode()


def _read_state(place: Path) -> tuple[Progress, dict[str, str]]:
    """Read the progress and the other files' checksums; raise `DamagedCheckpoint` if damaged."""
    path = place / STATE
    with _as_damage(path), open_regular(path) as file:
        data = file.read(LARGEST_METADATA)
    try:
        found = json.loads(data)
        values, sums = found["progress"], dict(found[_SHA256])
        # Writing it again gives the same bytes, so nothing was added, lost or changed.
        if data != _state(values, sums):
            raise DamagedCheckpoint(path, "its checksum differs")
        progress = _PROGRESS.validate_json(json.dumps(values), strict=True)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamagedCheckpoint(path, "is not the state of a run") from None
    if sums.keys() != {WEIGHTS, OPTIMIZER} or place != _checkpoint_path(
        place.parent, progress.update
    ):
        raise DamagedCheckpoint(path, "is of another checkpoint")
    return progress, sums


def _read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    with _as_damage(path), open_regular(path) as file:
        tensors, found = TensorFile(file, os.fstat(file.fileno()).st_size, path).read()
    if found != sha256:
        raise DamagedCheckpoint(path, "its checksum differs")
    return tensors


@contextlib.contextmanager
def _as_damage(path: Path) -> Iterator[None]:
    """Turn errors of reading a file of a checkpoint into `DamagedCheckpoint`."""
    try:
        yield
    except OSError as error:
        raise DamagedCheckpoint(path, f"cannot be read ({error.strerror})") from None
    except DamagedBundle as error:
        raise DamagedCheckpoint(path, error.found) from None


def _check_moments(state: Mapping[str, Tensor], optimizer: Optimizer, path: Path) -> None:
    """Raise `DamagedCheckpoint` unless `state` is what the optimiser keeps of such weights."""
    begun = any(name.endswith(".step") for name in state)  # there are none before its first step
    expected = {**optimizer.scaling(), **optimizer.averages_by_key()}
    for name, master in optimizer.masters.items() if begun else ():
        for key, tensor in optimizer.adam.first_state(master).items():
            expected[f"{name}.{key}"] = tensor
    if state.keys() != expected.keys():
        raise DamagedCheckpoint(path, "its tensors are not those that the optimiser keeps")
    for name, tensor in expected.items():
        if (state[name].shape, state[name].dtype) != (tensor.shape, tensor.dtype):
            found = f"{tuple(state[name].shape)} in {state[name].dtype}"
            raise DamagedCheckpoint(
                path, f"{name} has shape {found}, which the optimiser does not keep"
            )


def _on_cpu(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to("cpu").contiguous() for name, tensor in tensors.items()}
