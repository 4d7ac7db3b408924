"""The best weights so far of a run, in one file that can be used before there is a bundle."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crosshead.bundle.places import CHECKPOINTS, CONFIG, WEIGHTS, is_run
from crosshead.bundle.weights import TensorFile, serialized, tensors_sha256
from crosshead.errors import DamagedBundle
from crosshead.system.stored import open_stored, parse_metadata

BEST = "best.safetensors"
"""The name of the file, among the checkpoints."""

_SAID = "best"
"""The name of the entry in the file's header that describes the weights, as JSON."""


class BestSoFar(NamedTuple):
    """The best weights so far of a run, with their description."""

    path: Path
    weights: dict[str, Tensor]
    settings: dict[str, Any]
    """The configuration of a bundle of the weights; empty in the file of an old run."""
    update: str


def best_file(weights: dict[str, Tensor], settings: str, update: int) -> bytes:
    """Return the file of the best weights so far, which contains their checksum."""
    description: dict[str, Any] = {"update": update, "sha256": tensors_sha256(weights)}
    if settings:
        description["bundle"] = json.loads(settings)
    return serialized(weights, (_SAID, json.dumps(description)))


def read_best(path: Path) -> BestSoFar:
    """Read the file of the best weights so far."""
    with open_stored(path) as (stored, size):
        file = TensorFile(stored, size, path)
        weights, _ = file.read()
    description: dict[str, Any] = dict(file.metadata)  # old runs wrote only the checksum
    if _SAID in description:
        description = parse_metadata(description[_SAID].encode(errors="replace"), path)
    if description.get("sha256") != tensors_sha256(weights):
        raise DamagedBundle(path, "its checksum differs")
    settings = description.get("bundle")
    settings = settings if isinstance(settings, dict) else {}
    return BestSoFar(path, weights, settings, str(description.get("update")))


def best_so_far(directory: Path) -> BestSoFar | None:
    """Return the best weights so far of a run without a bundle, or None."""
    path = directory / CHECKPOINTS / BEST
    began = any(os.path.lexists(directory / name) for name in (CONFIG, WEIGHTS))
    if began or not is_run(directory) or not path.is_file():
        return None
    best = read_best(path)
    return best if best.settings else None
