"""Pack a bundle into one file to share: `crosshead pack`. Every command reads such files."""

from pathlib import Path

from crosshead.bundle.files import bundle_files, check_as_written
from crosshead.bundle.hub_names import hub_place
from crosshead.errors import BundleError, UserError
from crosshead.system.files import atomic_file, real_path
from crosshead.system.stored import add, new_archive, open_stored

SUFFIX = ".crosshead.zip"
"""The default suffix of a packed bundle's name."""


def pack(directory: Path, out: Path | None = None) -> Path:
    """Write the files of a bundle as one uncompressed zip archive.

    Other files of the run are left out. The same bundle gives the same bytes.
    """
    if directory.is_file():
        raise BundleError(f"{directory}: a file; expected the directory of a bundle")
    names = bundle_files(directory)
    place = hub_place(directory)
    own_name = place.name.partition("/")[2] if place else real_path(directory).name
    out = out or Path(own_name + SUFFIX)
    if real_path(out) in {real_path(directory / name) for name in names}:
        raise UserError(f"{out} is a file of the bundle itself; give another --out")
    check_as_written(directory, "nothing was packed")
    with atomic_file(out) as write, new_archive(write) as archive:
        for name in names:
            with open_stored(directory / name) as (file, size):
                add(archive, name, file, size)
    return out
