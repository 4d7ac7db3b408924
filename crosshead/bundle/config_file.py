"""Read and check `config.json`: the settings of a bundle, and the checksums of all its files.

The checksums bind the files together. A file that is damaged, or that belongs to another version of
the bundle, is refused by its name. Old bundles have no checksums and can still be loaded.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from crosshead.bundle.config import FORMAT
from crosshead.bundle.foreign import content_of, foreign_models, why_not_a_bundle
from crosshead.bundle.places import (
    CARD,
    CONFIG,
    WEIGHTS,
    check_place,
    is_run,
)
from crosshead.caller import how_to_resume
from crosshead.config import Config, validate
from crosshead.errors import BundleError, ConfigError, DamagedBundle
from crosshead.system.stored import (
    LARGEST_CONFIG,
    not_packed,
    open_stored,
    packed_names,
    parse_metadata,
    read_stored,
    stored_size,
)

if TYPE_CHECKING:
    from crosshead.bundle.base import Bundle, BundleConfig, Kinds

FILES, OWN = "files", "config_sha256"
"""The keys of `config.json` that hold the checksums."""

_SHA256 = r"^[0-9a-f]{64}$"


class FileChecksum(Config):
    """The entry of `config.json` about another file of the bundle."""

    sha256: str = Field(pattern=_SHA256)
    bytes: int = Field(ge=0)


class _Sums(Config):
    files: dict[str, FileChecksum]


@dataclass(frozen=True)
class Manifest:
    """The checksums that the bundle in `directory` states. An old bundle has none."""

    directory: Path
    files: Mapping[str, FileChecksum]
    of_config: bool
    """True if `config.json` states a checksum of itself."""
    remedy: str | None = None
    """Advice for a changed file that training can write again."""

    def check_sizes(self, names: Iterable[str]) -> None:
        """Compare the sizes of files without reading them."""
        for name in names:
            self._expected(name)
            if self.files and stored_size(self.directory / name) != self.files[name].bytes:
                raise self.differs(name, "size")

    def check(self, name: str) -> None:
        """Read a file and compare its checksum with the stated one."""
        if not self.files:
            return
        with open_stored(self.directory / name) as (file, _):
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        self.compare(name, sha256)

    def compare(self, name: str, sha256: str) -> None:
        """Compare the checksum of a file with the stated one."""
        self._expected(name)
        if self.files and sha256 != self.files[name].sha256:
            raise self.differs(name)

    def differs(self, name: str, attribute: str = "SHA-256") -> DamagedBundle:
        """Return the error for a file that differs from the entry in `config.json`."""
        found = (
            f"its {attribute} is not the one in {CONFIG}: it is damaged, or belongs to "
            "another bundle"
        )
        remedy = self.remedy if name == WEIGHTS else None
        remedy = remedy or "take a fresh copy of the bundle, or train it again"
        return DamagedBundle(self.directory / name, found, remedy)

    def _expected(self, name: str) -> None:
        if self.files and name not in self.files:
            path = self.directory / CONFIG
            raise DamagedBundle(path, f"{FILES}: {name} is missing")


def file_checksum(data: bytes) -> FileChecksum:
    """Return the entry of `config.json` for a file with these contents."""
    return FileChecksum(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


def config_bytes(settings: Mapping[str, Any], files: Mapping[str, FileChecksum]) -> bytes:
    """Return the bytes of `config.json`: the settings and the checksums of all files."""
    sums = {name: each.model_dump() for name, each in files.items()}
    return _with_own_checksum({**settings, FILES: sums})


def separate_checksums(
    directory: Path, values: dict[str, Any], data: bytes, remedy: str | None
) -> tuple[dict[str, Any], Manifest]:
    """Separate the settings in `config.json` from the checksums."""
    path, values = directory / CONFIG, dict(values)
    of_config = OWN in values
    if of_config:
        del values[OWN]
        # The file is unchanged if writing its values again gives the same bytes.
        if data != _with_own_checksum(values):
            found = "its checksum differs: it was changed after it was written"
            advice = remedy or "otherwise take a fresh copy of the bundle"
            raise DamagedBundle(
                path, found, f"if you changed it yourself, remove the key {OWN!r}; {advice}"
            )
    if FILES not in values:
        return values, Manifest(directory, {}, of_config, remedy)
    try:
        sums = validate(_Sums, {FILES: values.pop(FILES)})
    except ConfigError as error:
        raise DamagedBundle(path, str(error)) from None
    return values, Manifest(directory, sums.files, of_config, remedy)


def _with_own_checksum(values: Mapping[str, Any]) -> bytes:
    digest = hashlib.sha256(_written(values)).hexdigest()
    return _written({**values, OWN: digest})


def _written(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=2) + "\n").encode()


_PLAIN = re.compile(r"[\w.-]+")
"""File names without a folder."""

UNREGISTERED = (
    "if a program adds a name, it must register it before it loads the bundle; otherwise the "
    "bundle is damaged: take a fresh copy of it, or train it again"
)


def load_config(directory: Path, kinds: "Kinds") -> "tuple[type[Bundle], BundleConfig]":
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
    values: dict[str, Any], manifest: Manifest, path: Path, kinds: "Kinds"
) -> "tuple[type[Bundle], BundleConfig]":
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
        raise DamagedBundle(path, str(error), UNREGISTERED) from None


def _not_a_bundle(archive: Path, name: str) -> BundleError:
    """Return the error for an archive with a file that belongs to no bundle."""
    return not_packed(archive, f"{name[:60]!a} in it is no file of a bundle")
