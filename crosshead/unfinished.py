"""The best weights so far of a run that has no bundle yet, to try them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crosshead.places import CHECKPOINTS, CONFIG, is_run
from crosshead.stored import map_stored, parse_metadata
from crosshead.weights import TensorFile, tensors_sha256

BEST = "best.safetensors"
"""What a run calls the weights that validated best so far, among its checkpoints."""

_HEADER = "best"
"""The one thing that the header of such weights holds beside the tensors, as JSON: the order of
several would be left to chance, and the same weights are to be the same bytes."""


class BestSoFar(NamedTuple):
    """The best weights so far of a run, and what a bundle of them would say."""

    path: Path
    settings: dict[str, Any]
    file: TensorFile
    update: str
    sha256: str


def header_of(settings: str, update: int, weights: Mapping[str, Tensor]) -> dict[str, str]:
    """Return what the header of the best weights says.

    Args:
        settings: What a bundle of the weights would say, as JSON; empty where nobody knows.
        update: Their update.
        weights: The weights, in float32.
    """
    said: dict[str, Any] = {"update": update, "tensors_sha256": tensors_sha256(weights)}
    if settings:
        said["bundle"] = json.loads(settings)
    return {_HEADER: json.dumps(said)}


def stated_sha256(header: Mapping[str, str]) -> str | None:
    """Return the checksum of the weights in a header, or None in one that older versions wrote.

    Raises:
        ValueError: The header is not what `header_of` writes.
    """
    if _HEADER not in header:
        return None
    return str(json.loads(header[_HEADER]).get("tensors_sha256"))


def best_so_far(directory: Path) -> BestSoFar | None:
    """Return the best weights so far of a run that has no bundle, or None where there are none.

    Raises:
        DamagedBundle: The file of the weights is there, and is not one that a run writes.
    """
    path = directory / CHECKPOINTS / BEST
    if (directory / CONFIG).exists() or not is_run(directory) or not path.is_file():
        return None
    file = TensorFile(map_stored(path), path)
    said = parse_metadata(file.metadata.get(_HEADER, "{}").encode(), path)
    settings, update = said.get("bundle"), said.get("update")
    if not isinstance(settings, dict):
        return None  # those of older runs do not say what they are of
    return BestSoFar(path, settings, file, str(update), str(said.get("tensors_sha256")))
