"""Save and load a bundle: a trained model as one directory. Before that, load a run's best weights.

    config.json         the model's configuration, its default search, and the checksums of all
                        files
    model.safetensors   its weights in float32; a shared matrix is stored once
    tokenizer.*         the joint tokenizer, or source.* and target.*
    README.md           the model card

Loading a bundle cannot run code from it: no pickle is read or written.
"""

import json
import logging
import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crosshead.bundle.base import Bundle, BundleConfig, Kinds
from crosshead.bundle.config_file import (
    Manifest,
    config_bytes,
    file_checksum,
    parse_config,
    read_settings,
)
from crosshead.bundle.places import CARD, CHECKPOINTS, CONFIG, ENGINES, WEIGHTS, is_run
from crosshead.bundle.weights import (
    TensorFile,
    TensorSpec,
    assign_weights,
    build_without_memory,
    check_specs,
    serialized,
    tensor_specs,
    tensors_sha256,
    weights_of,
)
from crosshead.errors import DamagedBundle
from crosshead.models.base import Model
from crosshead.system.files import StrPath, atomic_write_all, make_directory
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


logger = logging.getLogger(__name__)


def save_bundle(directory: Path, bundle: Bundle, card: str, *, new: bool = False) -> None:
    """Write the bundle, and `card` as its README.md, into `directory`.

    All files are complete before the first one takes its place, so that an error leaves an earlier
    bundle intact. `config.json`, which holds the checksums, is moved last. A mixture of new and old
    files is therefore refused by its checksums.

    Args:
        directory: The directory, which is made if necessary.
        bundle: The bundle.
        card: The text of the model card.
        new: True if other files of these names may not be replaced.

    Raises:
        UserError: If a file cannot be written.
    """
    make_directory(directory)
    contents = bundle.files()
    contents[WEIGHTS] = serialized(weights_of(bundle.model))
    contents[CARD] = card.encode()
    sums = {name: file_checksum(data) for name, data in contents.items()}
    contents[CONFIG] = config_bytes(bundle.config.model_dump(mode="json"), sums)
    atomic_write_all(directory, contents, new=contents if new else ())
    shutil.rmtree(directory / ENGINES, ignore_errors=True)  # of an earlier model


def load_bundle(path: StrPath, kinds: Kinds, device: torch.device | str = "cpu") -> Bundle:
    """Load a bundle."""
    directory = Path(path)
    best = best_so_far(directory)
    if best is not None:
        return _unfinished_bundle(directory, best, kinds, device)
    opened = _open(directory, kinds)
    weights_path = directory / WEIGHTS
    with open_stored(weights_path) as (stored, size):
        file = TensorFile(stored, size, weights_path)
        model = _matched(opened, file.tensors, weights_path, directory / CONFIG)
        weights, sha256 = file.read()
    opened.manifest.compare(WEIGHTS, sha256)
    assign_weights(model, weights)
    _say_if_unchecked(opened.manifest)
    return opened.bundle(model.to(device))


def outline_bundle(path: Path | str, kinds: Kinds) -> Bundle:
    """Read a bundle without the weights of its model, whose parameters have no memory.

    All files except the card are compared with their checksums. For this the weights are read once,
    in pieces.
    """
    directory = Path(path)
    opened = _open(directory, kinds)
    weights = directory / WEIGHTS
    opened.manifest.check(WEIGHTS)
    with open_stored(weights) as (stored, size):
        tensors = TensorFile(stored, size, weights).tensors
    model = _matched(opened, tensors, weights, directory / CONFIG)
    _say_if_unchecked(opened.manifest)
    return opened.bundle(model)


class _Opened(NamedTuple):
    """A bundle without its model."""

    kind: type[Bundle]
    config: BundleConfig
    manifest: Manifest
    fields: dict[str, Any]

    def bundle(self, model: Model) -> Bundle:
        return self.kind(self.config, model.eval(), **self.fields)


def _open(directory: Path, kinds: Kinds) -> _Opened:
    """Return a bundle without its model, after checking the sizes of its files."""
    values, manifest = read_settings(directory)
    kind, config = parse_config(values, manifest, directory / CONFIG, kinds)
    manifest.check_sizes(name for name in manifest.files if name != CARD)
    for name in manifest.files:
        if name in kind.own_files:
            manifest.check(name)
    return _Opened(kind, config, manifest, kind.read(directory, config))


def _say_if_unchecked(manifest: Manifest) -> None:
    """Log a note if a bundle has no checksums. The command line shows such notes."""
    if not manifest.files:
        logger.info(
            "%s: an old bundle without checksums; damage is not detected", manifest.directory
        )
    elif not manifest.of_config:
        logger.info(
            "%s: has no checksum of its own; changes are not detected", manifest.directory / CONFIG
        )


def _unfinished_bundle(
    directory: Path, best: BestSoFar, kinds: Kinds, device: torch.device | str
) -> Bundle:
    """Return a bundle of the best weights so far of a run."""
    nothing = Manifest(directory, {}, of_config=False)
    kind, config = parse_config(best.settings, nothing, best.path, kinds)
    opened = _Opened(kind, config, nothing, kind.read(directory, config))
    model = _matched(opened, tensor_specs(best.weights.items()), best.path, best.path)
    assign_weights(model, best.weights)
    logger.info(
        "%s: the run is not finished; these are its best weights so far, from update %s",
        directory, best.update,
    )  # fmt: skip
    return opened.bundle(model.to(device))


def _matched(
    opened: _Opened, tensors: Mapping[str, TensorSpec], path: Path, config_path: Path
) -> Model:
    """Build a configuration's model, without memory, after comparing it with a file's tensors."""
    layers = opened.config.model.depth
    if layers > len(tensors):  # building so many layers could take very long
        raise DamagedBundle(
            path,
            f"has {len(tensors)} tensors, too few for the {layers} layers of {config_path.name}",
        )
    try:
        model = build_without_memory(partial(opened.kind.build, opened.config))
    except (ValueError, RuntimeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise DamagedBundle(config_path, f"the model cannot be built: {reason}") from None
    check_specs(tensor_specs(model.named_parameters()), tensors, path)
    return model
