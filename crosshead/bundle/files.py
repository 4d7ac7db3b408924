"""The files of a bundle: their names, whether they are as written, and one packed file of them."""

from pathlib import Path

from crosshead.bundle.config_file import Manifest, read_settings
from crosshead.bundle.places import (
    CARD,
    CHECKPOINTS,
    CONFIG,
    RECIPE,
    WEIGHTS,
    hub_place,
)
from crosshead.errors import BundleError, DamagedBundle, UserError
from crosshead.system.files import atomic_file, real_path
from crosshead.system.stored import (
    add,
    new_archive,
    open_stored,
    packed_names,
)
from crosshead.text.tokenizers import TOKENIZER_FILES


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
    _, manifest = read_settings(path)
    if not manifest.files:
        return []
    found: list[tuple[str, str | None]] = [
        (CONFIG, None if manifest.of_config else "contains no checksum of itself")
    ]
    return found + [(name, _difference(manifest, name)) for name in manifest.files]


def check_as_written(path: Path, outcome: str) -> None:
    """Check that the files of a bundle are as they were written. The card may have been edited."""
    for name, differs in verify_bundle(path):
        if differs and name not in (CARD, CONFIG):
            raise BundleError(f"{path / name}: {differs}; {outcome}")


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
    _, manifest = read_settings(path)
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
