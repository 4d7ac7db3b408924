"""Read and check `config.json`, the settings of a bundle."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosshead.bundle.base import Bundle, Kinds
from crosshead.bundle.checksums import Manifest, separate_checksums
from crosshead.bundle.config import FORMAT, BundleConfig
from crosshead.bundle.foreign import content_of, foreign_models, why_not_a_bundle
from crosshead.bundle.places import (
    CARD,
    CONFIG,
    WEIGHTS,
    check_place,
    is_run,
)
from crosshead.caller import how_to_resume
from crosshead.config import validate
from crosshead.errors import BundleError, ConfigError, DamagedBundle
from crosshead.models.attention_kinds import POSITIONS, SCORES
from crosshead.models.registry import CONFIGS
from crosshead.system.stored import (
    LARGEST_CONFIG,
    not_packed,
    packed_names,
    parse_metadata,
    read_stored,
)

_PLAIN = re.compile(r"[\w.-]+")
"""File names without a folder."""

UNREGISTERED = (
    "if a program registers this name, it must do so before it loads the bundle; otherwise the "
    "bundle is damaged: take a fresh copy of it, or train it again"
)


def load_config(directory: Path, kinds: Kinds) -> tuple[type[Bundle], BundleConfig]:
    """Read the `config.json` of a bundle, without its weights."""
    values, manifest = read_settings(directory)
    return parse_config(values, manifest, directory / CONFIG, kinds)


def read_settings(directory: Path) -> tuple[dict[str, Any], Manifest]:
    """Return the settings in the `config.json` of a bundle, and the checksums."""
    try:
        return _settings(directory)
    except BundleError as error:
        foreign = why_not_a_bundle(str(directory), foreign_models(*content_of(directory)))
        named = foreign is not None and not is_run(directory)
        raise (BundleError(foreign) if named else error) from None


def _settings(directory: Path) -> tuple[dict[str, Any], Manifest]:
    names = check_place(directory)
    strange = [name for name in names if not _PLAIN.fullmatch(name)]
    if strange or (names and CONFIG not in names):
        raise _not_a_bundle(directory, [*strange, *names][0])
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


def parse_config(
    values: dict[str, Any], manifest: Manifest, path: Path, kinds: Kinds
) -> tuple[type[Bundle], BundleConfig]:
    """Return the class and the configuration of a bundle."""
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
                raise _not_a_bundle(manifest.directory, name)
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


def _not_a_bundle(archive: Path, name: str) -> BundleError:
    """Return the error for an archive with a file that belongs to no bundle."""
    return not_packed(archive, f"{name[:60]!a} in it is no file of a bundle")
