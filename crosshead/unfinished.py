"""The best weights so far of a run that has no bundle yet, to try them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crosshead.errors import DamagedBundle
from crosshead.places import CHECKPOINTS, CONFIG, is_run
from crosshead.stored import map_stored, parse_metadata
from crosshead.weights import TENSORS_SHA256, TensorFile, tensors_sha256

BEST = "best.safetensors"
"""What a run calls the weights that validated best so far, among its checkpoints."""

_SETTINGS, _UPDATE = "bundle", "update"
"""What the header of such weights calls the settings of a bundle of them, and their update."""


class BestSoFar(NamedTuple):
    """The best weights so far of a run, and what a bundle of them would say."""

    path: Path
    settings: dict[str, Any]
    file: TensorFile
    update: str


def header_of(settings: str, update: int, weights: Mapping[str, Tensor]) -> dict[str, str]:
    """Return what the header of the best weights says, so that they can be tried.

    Args:
        settings: What a bundle of the weights would say, as JSON; empty where nobody knows.
        update: Their update.
        weights: The weights, in float32.
    """
    if not settings:
        return {}
    sha256 = tensors_sha256(weights)
    return {_SETTINGS: settings, _UPDATE: str(update), TENSORS_SHA256: sha256}


def best_so_far(directory: Path) -> BestSoFar | None:
    """Return the best weights so far of a run that has no bundle, or None where there are none.

    Raises:
        DamagedBundle: The file of the weights is there, and is no safetensors file.
    """
    path = directory / CHECKPOINTS / BEST
    if (directory / CONFIG).exists() or not is_run(directory) or not path.is_file():
        return None
    file = TensorFile(map_stored(path), path)
    if not {_SETTINGS, _UPDATE} <= file.metadata.keys():
        return None  # older runs, and weights that were recovered, do not say what they are of
    settings = parse_metadata(file.metadata[_SETTINGS].encode(), path)
    update = file.metadata[_UPDATE]
    if not update.isdecimal():
        raise DamagedBundle(path, f"update: expected a number, found {update[:60]!r}")
    return BestSoFar(path, settings, file, update)
