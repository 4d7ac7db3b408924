"""A bundle as one file, to share: `crosshead pack` writes it, and every command reads it."""

import zlib
from pathlib import Path

from crosshead.archive import LARGEST, Entry, end, header
from crosshead.bundle import CARD, CONFIG, bundle_files, verify_bundle
from crosshead.errors import BundleError, UserError
from crosshead.files import atomic_file, real_path
from crosshead.stored import map_stored, stored_size

SUFFIX = ".crosshead.zip"
"""Default suffix of a packed bundle's name."""

_PIECE = 1 << 24


def pack(directory: Path, out: Path | None = None) -> Path:
    """Write the files of a bundle, and nothing else of a run, as one uncompressed zip archive.

    The same bundle gives the same bytes.

    Args:
        directory: The bundle.
        out: The file to write; by default the directory's name and `SUFFIX`, in the current
            directory.

    Returns:
        The file that was written.

    Raises:
        BundleError: If `directory` is not a bundle, or its files are not those that it was written
            with. The card may have been edited.
        UserError: If the file cannot be written.
    """
    if directory.is_file():
        raise BundleError(f"{directory}: a file; expected the directory of a bundle")
    names = bundle_files(directory)
    out = out or Path(real_path(directory).name + SUFFIX)
    if real_path(out) in {real_path(directory / name) for name in names}:
        raise UserError(f"{out}: is a file of the bundle itself; give another --out")
    for name, differs in verify_bundle(directory):
        if differs and name not in (CARD, CONFIG):
            raise BundleError(f"{directory / name}: {differs}; nothing was packed")
    if sum(stored_size(directory / name) for name in names) > LARGEST:
        raise UserError(
            f"{directory}: is larger than {LARGEST / 1e9:.1f} GB, the most that such a file holds; "
            "copy the files of the bundle instead"
        )
    entries = []
    with atomic_file(out) as write:
        for name in names:
            data = map_stored(directory / name)
            entries.append(Entry(name, len(data), zlib.crc32(data)))
            write(header(entries[-1]))
            for at in range(0, len(data), _PIECE):
                write(bytes(data[at : at + _PIECE]))
        write(end(entries))
    return out
