"""Save and load a bundle: a trained model as one directory.

    config.json         the model's configuration, its default search, and the checksums of all
                        files
    model.safetensors   its weights in float32; a shared matrix is stored once
    tokenizer.*         the joint tokenizer, or source.* and target.*
    README.md           the model card

Loading a bundle cannot run code from it: no pickle is read or written.
"""

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch

from crosshead.bundle.checksums import Manifest, config_bytes, file_checksum, separate_checksums
from crosshead.bundle.config import FORMAT, BundleConfig
from crosshead.bundle.places import (
    CARD,
    CHECKPOINTS,
    CONFIG,
    RECIPE,
    WEIGHTS,
    check_place,
    is_run,
)
from crosshead.bundle.unfinished import BestSoFar, best_so_far
from crosshead.bundle.weights import (
    TensorFile,
    TensorSpec,
    build_without_memory,
    check_specs,
    fill,
    serialized,
    tensor_specs,
    weights_of,
)
from crosshead.caller import how_to_resume
from crosshead.config import validate
from crosshead.data.text.tokenizers import TOKENIZER_FILES
from crosshead.errors import BundleError, ConfigError, DamagedBundle
from crosshead.models.attention_kinds import POSITIONS, SCORES
from crosshead.models.base import Model
from crosshead.models.registry import CONFIGS
from crosshead.system.files import StrPath, atomic_write_all, make_directory
from crosshead.system.stored import (
    LARGEST_CONFIG,
    not_packed,
    open_stored,
    packed_names,
    parse_metadata,
    read_stored,
)

_PLAIN = re.compile(r"[\w.-]+")
"""File names without a folder."""

logger = logging.getLogger(__name__)


UNREGISTERED = (
    "if a program registers this name, it must do so before it loads the bundle; otherwise the "
    "bundle is damaged: take a fresh copy of it, or train it again"
)


@dataclass(frozen=True)
class Bundle(ABC):
    """A trained model, its configuration, and everything else that its task needs.

    Each kind of bundle adds fields, which are stored in its own files.
    """

    config: BundleConfig
    model: Model

    config_type: ClassVar[type[BundleConfig]] = BundleConfig
    own_files: ClassVar[tuple[str, ...]] = ()
    """The names of files that only this kind of bundle may have."""

    @property
    def longest_input(self) -> int:
        """The number of positions of the longest input in training, or 0 if it is unknown."""
        return 0

    @classmethod
    @abstractmethod
    def build(cls, config: BundleConfig) -> Model:
        """Build a freshly initialised model.

        Args:
            config: The configuration of the bundle.

        Returns:
            The model.
        """

    @classmethod
    def read(cls, directory: Path, config: BundleConfig) -> dict[str, Any]:
        """Read the fields of this kind, by name, from its own files.

        Args:
            directory: The bundle.
            config: Its configuration.

        Returns:
            The fields; none if this kind has no files of its own.

        Raises:
            DamagedBundle: If a file is missing or invalid.
        """
        return {}

    def files(self) -> dict[str, bytes]:
        """Return the contents of the bundle's own files, by name."""
        return {}

    def merged(self, others: list[Self]) -> BundleConfig:
        """Return the configuration of the average of this bundle and others.

        Args:
            others: The other bundles of the average.
        """
        return self.config

    def why_not_averaged(self, other: "Bundle") -> str:
        """Return why another bundle of the same model cannot be averaged with this one, or "".

        `{first}` in the text stands for the path of this bundle.

        Args:
            other: The other bundle.
        """
        return ""


Kinds = Mapping[str, type[Bundle]]
"""The class of the bundles of each task."""


def save_bundle(directory: Path, bundle: Bundle, card: str) -> None:
    """Write the bundle, and `card` as its README.md, into `directory`.

    All files are complete before the first one takes its place, so that an error leaves an earlier
    bundle intact. `config.json`, which holds the checksums, is moved last. A mixture of new and old
    files is therefore refused by its checksums.

    Args:
        directory: The directory, which is made if necessary.
        bundle: The bundle.
        card: The text of the model card.

    Raises:
        UserError: If a file cannot be written.
    """
    make_directory(directory)
    contents = bundle.files()
    contents[WEIGHTS] = serialized(weights_of(bundle.model))
    contents[CARD] = card.encode()
    sums = {name: file_checksum(data) for name, data in contents.items()}
    contents[CONFIG] = config_bytes(bundle.config.model_dump(mode="json"), sums)
    atomic_write_all(directory, contents)


def load_bundle(path: StrPath, kinds: Kinds, device: torch.device | str = "cpu") -> Bundle:
    """Load a bundle.

    Args:
        path: The directory of the bundle, or a file written by `crosshead pack`. For a run without
            a bundle, the best weights so far are loaded and a note is logged.
        kinds: The allowed classes of bundles.
        device: The device of the model.

    Returns:
        The bundle, with its model in evaluation mode.

    Raises:
        BundleError: If `path` is not a bundle, or the bundle is damaged, incomplete or of a newer
            format. The checksums of all files except the card are compared with `config.json`.
    """
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
    fill(model, weights)
    _say_if_unchecked(opened.manifest)
    return opened.bundle(model.to(device))


def outline_bundle(path: Path | str, kinds: Kinds) -> Bundle:
    """Read a bundle without the weights of its model, whose parameters have no memory.

    All files except the card are compared with their checksums. For this the weights are read once,
    in pieces.

    Args:
        path: The directory of the bundle, or a packed bundle.
        kinds: The allowed classes of bundles, by task.

    Returns:
        The bundle, whose model has shapes but no numbers.

    Raises:
        BundleError: As `load_bundle` does.
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


def load_config(directory: Path, kinds: Kinds) -> tuple[type[Bundle], BundleConfig]:
    """Read the `config.json` of a bundle, without its weights.

    Args:
        directory: The directory of the bundle, or a packed bundle.
        kinds: The allowed classes of bundles, by task.

    Returns:
        The class of the bundle, and its configuration.

    Raises:
        BundleError: If there is no valid `config.json`.
    """
    values, manifest = _values(directory)
    return _configured(values, manifest, directory / CONFIG, kinds)


def verify_bundle(path: Path) -> list[tuple[str, str | None]]:
    """Compare all files of a bundle, including the card, with the checksums in `config.json`.

    Args:
        path: The directory of the bundle, or a packed bundle.

    Returns:
        The name of each file, and its fault or None. An old bundle without checksums gives an empty
        list.

    Raises:
        BundleError: If there is no valid `config.json`.
    """
    _, manifest = _values(path)
    if not manifest.files:
        return []
    found: list[tuple[str, str | None]] = [
        (CONFIG, None if manifest.of_config else "contains no checksum of itself")
    ]
    return found + [(name, _difference(manifest, name)) for name in manifest.files]


def card_was_changed(path: Path) -> bool:
    """Return whether the model card was changed after the bundle was written.

    Loading ignores this, because the owner may edit the card.

    Raises:
        BundleError: If there is no valid `config.json`.
    """
    _, manifest = _values(path)
    return CARD in manifest.files and _difference(manifest, CARD) is not None


def _difference(manifest: Manifest, name: str) -> str | None:
    """Return the fault of a file, or None."""
    try:
        manifest.check_sizes([name])
        manifest.check(name)
    except DamagedBundle as error:
        return error.found
    return None


def bundle_files(path: Path) -> list[str]:
    """Return the names of the files of a bundle, `config.json` last."""
    _, manifest = _values(path)
    if path.is_file():
        return packed_names(path)
    names = [*(manifest.files or (*TOKENIZER_FILES, WEIGHTS, CARD))]
    required = manifest.files.keys() - {CARD}
    return [*(each for each in names if each in required or (path / each).is_file()), CONFIG]


def files_in_use(path: Path) -> list[Path]:
    """Return the files that a bundle is read from, and the files that its run is resumed from."""
    if path.is_file():
        return [path]
    names = bundle_files(path) if (path / CONFIG).exists() else [*TOKENIZER_FILES]
    return [*(path / name for name in [*names, RECIPE]), *(path / CHECKPOINTS).rglob("*")]


def _values(directory: Path) -> tuple[dict[str, Any], Manifest]:
    """Return the settings in the `config.json` of a bundle, and the checksums.

    Raises:
        BundleError: If there is no valid `config.json`.
    """
    names = check_place(directory)
    strange = [name for name in names if not _PLAIN.fullmatch(name)]
    if strange or (names and CONFIG not in names):
        raise _no_bundle(directory, [*strange, *names][0])
    remedy = None
    if is_run(directory):
        remedy = f"to write the bundle of this run again: {how_to_resume(directory)}"
    path = directory / CONFIG
    data = read_stored(path, LARGEST_CONFIG)
    values = parse_metadata(data, path)
    newest = values.get("format")
    if type(newest) is not int or newest < 1:
        shown = repr(newest)[:60]
        raise DamagedBundle(path, f"format: expected a number from 1 to {FORMAT}, found {shown}")
    if newest > FORMAT:
        raise BundleError(
            f"{path}: format {newest} is newer than this crosshead reads ({FORMAT}): "
            "upgrade crosshead"
        )
    values, manifest = separate_checksums(directory, values, data, remedy)
    if manifest.files and WEIGHTS not in manifest.files:
        raise DamagedBundle(path, f"files: {WEIGHTS} is missing")
    return values, manifest


def _configured(
    values: dict[str, Any], manifest: Manifest, path: Path, kinds: Kinds
) -> tuple[type[Bundle], BundleConfig]:
    """Return the class and the configuration of the bundle with the settings of `path`.

    Raises:
        BundleError: If the settings are invalid.
    """
    task = values.get("task", "translation")
    if not isinstance(task, str) or task not in kinds:
        known = ", ".join(map(repr, kinds))
        raise DamagedBundle(path, f"task: expected {known}, found {task!r:.60}", UNREGISTERED)
    kind = kinds[task]
    allowed = {CONFIG, WEIGHTS, CARD, *kind.own_files}
    for name in manifest.files:
        if name not in allowed:
            raise DamagedBundle(path, f"files: {name[:60]!a} is not a file of a bundle")
    if manifest.directory.is_file():
        for name in packed_names(manifest.directory):
            if name not in allowed:
                raise _no_bundle(manifest.directory, name)
    try:
        return kind, validate(kind.config_type, values)
    except ConfigError as error:
        remedy = UNREGISTERED if _has_unknown_name(values.get("model")) else None
        raise DamagedBundle(path, str(error), remedy) from None


def _has_unknown_name(model: Any) -> bool:
    """Return whether a model's settings have a name that a program may have registered."""
    known: dict[str, Mapping[str, Any]] = {
        "architecture": CONFIGS,
        "score": SCORES,
        "positions": POSITIONS,
    }
    return isinstance(model, dict) and any(
        isinstance(model.get(key), str) and model[key] not in names for key, names in known.items()
    )


def _no_bundle(archive: Path, name: str) -> BundleError:
    """Return the error for an archive with a file that belongs to no bundle."""
    return not_packed(archive, f"{name[:60]!a} in it is no file of a bundle")


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
    values, manifest = _values(directory)
    kind, config = _configured(values, manifest, directory / CONFIG, kinds)
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
    kind, config = _configured(best.settings, nothing, best.path, kinds)
    opened = _Opened(kind, config, nothing, kind.read(directory, config))
    model = _matched(opened, tensor_specs(best.weights.items()), best.path, best.path)
    fill(model, best.weights)
    logger.info(
        "%s: the run is not finished; these are its best weights so far, from update %s",
        directory, best.update,
    )  # fmt: skip
    return opened.bundle(model.to(device))


def _matched(
    opened: _Opened, tensors: Mapping[str, TensorSpec], path: Path, config_path: Path
) -> Model:
    """Build the model of a configuration, without memory, after comparing it with a file's tensors.

    Args:
        opened: The bundle without its model.
        tensors: The tensors in the file.
        path: The file of the weights.
        config_path: The file of the configuration.

    Raises:
        DamagedBundle: If the model cannot be built, or the tensors belong to another model.
    """
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
