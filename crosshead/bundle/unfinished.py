"""The best weights so far of a run: one file, which can be tried before there is a bundle."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crosshead.bundle.places import CHECKPOINTS, CONFIG, is_run
from crosshead.bundle.weights import TensorFile, serialized, tensors_sha256
from crosshead.errors import DamagedBundle
from crosshead.system.stored import open_stored, parse_metadata

BEST = "best.safetensors"
"""Name of the file of the weights that validated best so far, among the checkpoints."""

_SAID = "best"
"""The text in the header of such weights that says what they are, as JSON."""


class BestSoFar(NamedTuple):
    """The best weights so far of a run, and what the file says of them."""

    path: Path
    weights: dict[str, Tensor]
    settings: dict[str, Any]
    """The configuration of a bundle of the weights; empty in the file of an older run."""
    update: str


def best_file(weights: dict[str, Tensor], settings: str, update: int) -> bytes:
    """Return the file of the best weights so far, which holds their checksum.

    Args:
        weights: The weights, in float32 on the CPU.
        settings: What a bundle of the weights would say, as JSON; empty where nobody knows.
        update: Their update.
    """
    said: dict[str, Any] = {"update": update, "sha256": tensors_sha256(weights)}
    if settings:
        said["bundle"] = json.loads(settings)
    return serialized(weights, (_SAID, json.dumps(said)))


def read_best(path: Path) -> BestSoFar:
    """Read the file of the best weights so far.

    Raises:
        DamagedBundle: The file is missing, or is not what `best_file` wrote.
        BundleError: The file may not be read.
    """
    with open_stored(path) as (stored, size):
        file = TensorFile(stored, size, path)
        weights, _ = file.read()
    said: dict[str, Any] = dict(file.metadata)  # of older runs: the checksum alone
    if _SAID in said:
        said = parse_metadata(said[_SAID].encode(errors="replace"), path)
    if said.get("sha256") != tensors_sha256(weights):
        raise DamagedBundle(path, "its checksum differs")
    settings = said.get("bundle")
    settings = settings if isinstance(settings, dict) else {}
    return BestSoFar(path, weights, settings, str(said.get("update")))


def best_so_far(directory: Path) -> BestSoFar | None:
    """Return the best weights so far of a run that has no bundle, or None where there are none.

    Raises:
        BundleError: The file of the weights is there, and `read_best` refuses it.
    """
    path = directory / CHECKPOINTS / BEST
    if (directory / CONFIG).exists() or not is_run(directory) or not path.is_file():
        return None
    best = read_best(path)
    return best if best.settings else None
