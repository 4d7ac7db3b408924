"""The checksums of a bundle: `config.json` holds those of all other files, and its own.

They tie the files together: a file that was damaged, or that is of another version of the bundle,
is refused by its name. A bundle without them is older than they are, and is read all the same.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from crosshead.bundle.places import CONFIG, WEIGHTS
from crosshead.config import Config, validate
from crosshead.errors import ConfigError, DamagedBundle
from crosshead.system.stored import open_stored, stored_size

FILES, OWN = "files", "config_sha256"
"""The keys of `config.json` that hold the checksums."""

_SHA256 = r"^[0-9a-f]{64}$"


class FileSum(Config):
    """The entry of `config.json` about another file of the bundle."""

    sha256: str = Field(pattern=_SHA256)
    bytes: int = Field(ge=0)


class _Sums(Config):
    files: dict[str, FileSum]


@dataclass(frozen=True)
class Seal:
    """The checksums that the bundle in `directory` states; none where it is an older one."""

    directory: Path
    files: Mapping[str, FileSum]
    of_config: bool
    """True if `config.json` states a checksum of itself."""
    mend: str | None = None
    """Advice for a file that training can write again and that is not the one of the bundle."""

    def check_sizes(self, names: Iterable[str]) -> None:
        """Compare the sizes of files; reads none. Raises what `check` raises."""
        for name in names:
            self._expected(name)
            if self.files and stored_size(self.directory / name) != self.files[name].bytes:
                raise self.differs(name, "size")

    def check(self, name: str) -> None:
        """Read a file and compare its checksum; raises what `compare` raises."""
        if not self.files:
            return
        with open_stored(self.directory / name) as (file, _):
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        self.compare(name, sha256)

    def compare(self, name: str, sha256: str) -> None:
        """Compare the checksum of a file that was read with the stated one.

        Raises:
            DamagedBundle: If it is not the one that `config.json` states.
        """
        self._expected(name)
        if self.files and sha256 != self.files[name].sha256:
            raise self.differs(name)

    def differs(self, name: str, what: str = "SHA-256") -> DamagedBundle:
        """The error for a file that is not the one that `config.json` names."""
        found = f"its {what} is not the one in {CONFIG}: damaged, or of another bundle"
        mend = self.mend if name == WEIGHTS else None
        mend = mend or "take a fresh copy of the bundle, or train it again"
        return DamagedBundle(self.directory / name, found, mend)

    def _expected(self, name: str) -> None:
        if self.files and name not in self.files:
            path = self.directory / CONFIG
            raise DamagedBundle(path, f"{FILES}: {name} is missing")


def file_sum(data: bytes) -> FileSum:
    """Return the entry of `config.json` for a file with these contents."""
    return FileSum(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


def sealed(settings: Mapping[str, Any], files: Mapping[str, FileSum]) -> bytes:
    """The bytes of `config.json`: settings, the checksums of the other files, and its own."""
    sums = {name: each.model_dump() for name, each in files.items()}
    return _with_own({**settings, FILES: sums})


def unsealed(
    directory: Path, values: dict[str, Any], data: bytes, mend: str | None
) -> tuple[dict[str, Any], Seal]:
    """Tell the settings in `config.json` from the checksums beside them.

    Args:
        directory: The bundle.
        values: What the file says.
        data: Its bytes.
        mend: What to do where the bundle changed and can be written again, if it can.

    Raises:
        DamagedBundle: If its own checksum differs.
    """
    path, values = directory / CONFIG, dict(values)
    of_config = OWN in values
    if of_config:
        del values[OWN]
        # Written again it is the same to the byte: nothing was added, lost or changed.
        if data != _with_own(values):
            found = "it was changed since it was written: its checksum differs"
            way = mend or "otherwise take a fresh copy of the bundle"
            raise DamagedBundle(
                path, found, f"if you changed it yourself, remove its key {OWN!r}; {way}"
            )
    if FILES not in values:
        return values, Seal(directory, {}, of_config, mend)
    try:
        sums = validate(_Sums, {FILES: values.pop(FILES)})
    except ConfigError as error:
        raise DamagedBundle(path, str(error)) from None
    return values, Seal(directory, sums.files, of_config, mend)


def _with_own(values: Mapping[str, Any]) -> bytes:
    digest = hashlib.sha256(_written(values)).hexdigest()
    return _written({**values, OWN: digest})


def _written(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=2) + "\n").encode()
