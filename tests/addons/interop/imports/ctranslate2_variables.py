"""Read and change the variables of `model.bin`, CTranslate2's file of weights."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crosshead.addons.interop.imports.ctranslate2 import _TYPES, _variables

Variables = dict[str, np.ndarray[Any, Any]]


def variables(directory: Path) -> Variables:
    """The variables of a model by name."""
    return _variables((directory / "model.bin").read_bytes(), directory)


def write_variables(directory: Path, found: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write the variables of a Transformer."""
    codes = {np.dtype(each): code for code, each in _TYPES.items()}
    parts = [struct.pack("<I", 6), _text("TransformerSpec"), struct.pack("<II", 7, len(found))]
    for name, each in found.items():
        sizes = (each.ndim, *each.shape, codes[each.dtype], each.nbytes)
        parts += [_text(name), struct.pack(f"<B{each.ndim}IBI", *sizes), each.tobytes()]
    (directory / "model.bin").write_bytes(b"".join([*parts, struct.pack("<I", 0)]))


def _text(text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("<H", len(data)) + data
