"""Safe reading of models of other toolkits: regular files of bounded size, and no code from them.

Every fault is a `ForeignModelError`, which names the file.
"""

import contextlib
import hashlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosshead.bundle.weights import TensorFile
from crosshead.errors import BundleError, DamagedBundle, UserError
from crosshead.system.stored import (
    LARGEST_METADATA,
    UNREADABLE,
    NotPackedError,
    check_names,
    is_litter,
    open_archive,
    open_stored,
    read_metadata,
    read_stored,
)

AGAIN = "take a fresh copy of the model"
"""The advice about a damaged or missing file."""

MIXED = "they do not belong together; use files of one model"
"""The advice about files that contradict each other."""

_LARGEST_CONTENT = 1 << 33
"""The largest size of the content of an archive, in bytes."""

_DEEPEST_YAML = 10
"""The deepest nesting of YAML. Marian's files have three levels."""


class ForeignModelError(UserError):
    """A model of another toolkit that cannot be imported."""


@dataclass(frozen=True)
class ForeignDirectory:
    """The directory of a model of another toolkit.

    Attributes:
        path: The directory.
    """

    path: Path

    def has(self, name: str) -> bool:
        """Return whether the directory has a file of this name."""
        return os.path.exists(self.path / name)  # False also for a name that no file can have

    def matching(self, pattern: str) -> list[str]:
        """Return the names of the files that fit a pattern, sorted."""
        return sorted(each.name for each in self.path.glob(pattern))

    def bytes(self, name: str, most: int = LARGEST_METADATA) -> bytes:
        """Return the content of a file."""
        with explained():
            return read_stored(self.path / name, most)

    def json(self, name: str) -> dict[str, Any]:
        """Return the JSON object of a file."""
        with explained():
            return read_metadata(self.path / name)

    def json_list(self, name: str) -> list[str]:
        """Return the JSON list of texts of a file."""
        try:
            found = json.loads(self.bytes(name))
            json.dumps(found, ensure_ascii=False).encode()  # refuses lone surrogates
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ForeignModelError(f"{self.path / name}: expected a JSON list of texts; {AGAIN}")
        return found

    def yaml(self, name: str) -> dict[str, Any]:
        """Return the YAML mapping of a file: see `parse_yaml`."""
        return parse_yaml(self.bytes(name), self.path / name)

    def sha256(self, name: str) -> str:
        """Return the SHA-256 of a file."""
        with explained(), open_stored(self.path / name) as (file, _):
            return hashlib.file_digest(file, "sha256").hexdigest()

    def safetensors(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of a safetensors file."""
        path = self.path / name
        with explained(), open_stored(path) as (file, size):
            return TensorFile(file, size, path).read()[0]

    def pickled_tensors(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of a file that `torch.save` wrote.

        PyTorch's reader of weights alone reads it: tensors by name, and nothing else that a pickle
        could hold or run.
        """
        path = self.path / name
        convert = (
            "load the model with transformers where you trust it, save it with "
            "save_pretrained(DIR), which writes model.safetensors, and import DIR"
        )
        with explained(), open_stored(path) as (file, _):
            try:
                open_archive(file)  # type: ignore[arg-type]
                file.seek(0)
                found = torch.load(file, map_location="cpu", weights_only=True)  # type: ignore[arg-type]
            except (OSError, MemoryError):
                raise
            except Exception:  # a wrong pickle may raise anything
                raise ForeignModelError(
                    f"{path}: damaged, compressed, or holds more than weights; {convert}"
                ) from None
        if not isinstance(found, dict) or not all(map(_is_weight, found, found.values())):
            raise ForeignModelError(f"{path}: holds more than weights by name; {convert}")
        return dict(found)

    def arrays(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of an uncompressed `.npz` file."""
        path = self.path / name
        with explained(), open_stored(path) as (file, _):
            try:
                archive = open_archive(file)  # type: ignore[arg-type]
                found = {
                    member.removesuffix(".npy"): np.lib.format.read_array(
                        archive.open(member), allow_pickle=False
                    )
                    for member in archive.namelist()
                }
            except NotPackedError as error:
                raise ForeignModelError(f"{path}: no plain .npz file ({error}); {AGAIN}") from None
            except (MemoryError, *UNREADABLE) as error:
                raise ForeignModelError(
                    f"{path}: truncated or damaged ({str(error)[:100]}); {AGAIN}"
                ) from None
        for key, each in found.items():
            if each.dtype.kind not in "biuf" or each.itemsize > 8 or not each.dtype.isnative:
                raise ForeignModelError(f"{path}: {key[:40]!a} is an array of {each.dtype!s:.40}")
        return found


def _is_weight(name: object, value: object) -> bool:
    """Return whether a pair of a pickled mapping is a name and a tensor that stores its numbers."""
    return (
        isinstance(name, str)
        and isinstance(value, Tensor)
        and value.layout == torch.strided
        and not value.is_quantized
        and value.device.type == "cpu"
        and value.untyped_storage().nbytes() >= value.numel() * value.element_size()
    )


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn errors about a file of a bundle into errors about a file of a foreign model."""
    try:
        yield
    except DamagedBundle as error:
        where = str(error).partition(f": {error.found}")[0]
        raise ForeignModelError(f"{where}: {error.found}; {AGAIN}") from None
    except BundleError as error:
        raise ForeignModelError(str(error)) from None


def parse_yaml(data: bytes, where: Path | str) -> dict[str, Any]:
    """Return a YAML mapping whose values are texts, lists and mappings.

    Numbers and truth values stay texts, because a piece of a vocabulary may be `no` or `1e3`.
    """
    try:
        import yaml
    except ImportError:
        raise ForeignModelError(
            f"{where}: reading Marian's YAML needs PyYAML; install it with "
            "`pip install 'crosshead[marian]'`"
        ) from None
    try:
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the first needs libyaml
        _check_depth(yaml.parse(data, Loader=loader), yaml, where)
        found = yaml.load(data, Loader=loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        shown = " ".join(str(error).split())[:100]
        raise ForeignModelError(f"{where}: not valid YAML ({shown}); {AGAIN}") from None
    if not isinstance(found, dict):
        raise ForeignModelError(
            f"{where}: expected a YAML mapping, found {type(found).__name__}; {AGAIN}"
        )
    return found


def _check_depth(events: Iterable[Any], yaml: ModuleType, where: Path | str) -> None:
    """Check the depth of YAML, because libyaml's composer overflows its stack in deep nesting."""
    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST_YAML:
            raise ForeignModelError(f"{where}: lists in lists to a depth of {depth}; {AGAIN}")


@contextlib.contextmanager
def unpacked(path: Path, scratch: Path, most: int = _LARGEST_CONTENT) -> Iterator[Path]:
    """Yield the directory of a model: `path` itself, or the content of a zip archive."""
    if path.is_dir():
        yield path
        return
    if not path.exists():
        raise ForeignModelError(f"{path}: no such file or directory; check its name")
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise ForeignModelError(
            f"{path}: neither a directory nor a whole zip archive; name another path"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            check_names(archive.infolist())
            members = [each for each in archive.infolist() if not is_litter(each.filename)]
            size = sum(each.file_size for each in members)
            if size > most:
                raise ForeignModelError(
                    f"{path}: holds {size:,} bytes, expected at most {most:,}; unpack it yourself, "
                    "and import the directory"
                )
            archive.extractall(scratch, members)  # no name leads out of the directory
    except NotPackedError as error:
        raise ForeignModelError(f"{path}: {error}; do not trust it") from None
    except (OSError, *UNREADABLE) as error:
        if isinstance(error, OSError) and error.errno:  # bz2 raises an OSError without a number
            raise ForeignModelError(
                f"{path}: cannot be unpacked into {scratch}: {error.strerror}; unpack it yourself, "
                "and import the directory"
            ) from None
        raise ForeignModelError(
            f"{path}: truncated or damaged ({str(error)[:100]}); {AGAIN}"
        ) from None
    entries = list(scratch.iterdir())
    yield entries[0] if len(entries) == 1 and entries[0].is_dir() else scratch
