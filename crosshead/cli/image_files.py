"""Image files that the command line was given: some of them may be broken."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crosshead.cli.terminal import note
from crosshead.errors import DataError

if TYPE_CHECKING:
    import numpy as np


def whole_images(
    files: Sequence[Path], pixels: "Callable[[Path], np.ndarray]"
) -> "tuple[list[tuple[Path, np.ndarray]], int]":
    """Read images. A file that cannot be read gets a message.

    Args:
        files: The files of the images.
        pixels: Function from a file to its pixels, "H W C".

    Returns:
        The files that were read, each with its pixels, and the number of the others.
    """
    read = []
    for file in files:
        try:
            read.append((file, pixels(file)))
        except DataError as error:
            note(f"error: {error}")
    return read, len(files) - len(read)
