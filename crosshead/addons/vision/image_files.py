"""Image files that the command line was given: some of them may be broken."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crosshead.cli.terminal import json_line, note
from crosshead.errors import DataError

if TYPE_CHECKING:
    import numpy as np


def whole_images(
    files: Sequence[Path], pixels: "Callable[[Path], np.ndarray]"
) -> "tuple[list[tuple[Path, np.ndarray]], dict[Path, str]]":
    """Read images. A file that cannot be read gets a message."""
    read, broken = [], {}
    for file in files:
        try:
            read.append((file, pixels(file)))
        except DataError as error:
            note(f"error: {error}")
            broken[file] = str(error)
    return read, broken


def in_order(
    files: Sequence[Path], lines: Mapping[Path, str], broken: Mapping[Path, str]
) -> list[str]:
    """Return the lines of JSON of each file: its own, or one with the error."""
    return [
        lines.get(file) or json_line({"image": str(file), "error": broken[file]}) for file in files
    ]
