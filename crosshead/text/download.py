"""Download public data sets by name: `crosshead data get`."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from crosshead.config import nearest
from crosshead.errors import DataError, why_unreadable
from crosshead.extensions import added
from crosshead.system.files import atomic_write, make_directory
from crosshead.system.remote import RemoteFile, fetch
from crosshead.text.synthetic import date_files, date_pairs

# The commit stands in the address, so that the content at the address does not change.
_MULTI30K_AT = (
    "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/"
    "data/task1/raw"
)
_MULTI30K = {
    "train.en": (1_801_238, "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
    "train.de": (2_110_398, "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
    "train.fr": (2_111_303, "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d"),
    "train.cs": (1_755_283, "2be68b38c8d586ff4f54eb13cc6e1baaaa053695b3f070d3038303a47f2268da"),
    "val.en": (63_297, "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
    "val.de": (75_981, "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
    "val.fr": (73_924, "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc"),
    "val.cs": (60_213, "d53827e469b0a1ca8d57e9e26b2b64c4bc4b33f5479c7b03ae87ae5c882c3e33"),
    "test_2016_flickr.en": (
        62_076,
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    ),
    "test_2016_flickr.de": (
        70_649,
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    ),
    "test_2016_flickr.fr": (
        72_261,
        "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    ),
    "test_2016_flickr.cs": (
        62_364,
        "45adb85f688de8407fddcbe1b36dca15d12aab868149b337e2576f2d6d2ff8d8",
    ),
}
"""Sizes in bytes and SHA-256 checksums of the files, by name."""

DATA_SETS: dict[str, list[RemoteFile]] = {
    # Elliott et al. 2016 (WMT multimodal task 1): image captions in four languages, raw text.
    "multi30k": [
        RemoteFile(name, f"{_MULTI30K_AT}/{name}.gz", *known) for name, known in _MULTI30K.items()
    ],
    # Works of Shakespeare, 1.1 MB of text.
    "tinyshakespeare": [
        RemoteFile(
            "input.txt",
            "https://raw.githubusercontent.com/karpathy/char-rnn/"
            "6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt",
            1_115_394,
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        )
    ],
    # Zhou et al. 2021 (CC BY-ND 4.0): an electricity transformer's temperature, hourly.
    "ett": [
        RemoteFile(
            "ETTh1.csv",
            "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/"
            "1d16c8f4f943005d613b5bc962e9eeb06058cf07/ETT-small/ETTh1.csv",
            2_589_657,
            "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
        )
    ],
}
"""All data sets by name."""

DATES = "dates"
"""The data set of English and German dates, which is generated and not downloaded."""


def download(name: str, directory: Path, say: Callable[[str], None]) -> None:
    """Download a data set, or generate one that needs no network; existing whole files stay."""
    generated = added("datasets")
    known = [*DATA_SETS, DATES, *generated]
    if name not in known:
        raise DataError(f"there is no data set {name!r}; {nearest(name, known)}")
    if directory.exists() and not directory.is_dir():
        raise DataError(f"{directory}: is a file; name a directory with --out")
    if name == DATES:
        _write_dates(directory, say)
        return
    if name in generated:
        if directory.exists() and any(directory.iterdir()):
            raise DataError(f"{directory}: is not empty; name a new directory with --out")
        for path in generated[name](directory):
            say(f"{path}: generated")
        return
    for file in DATA_SETS[name]:
        place = directory / file.name
        if _is_there(place, file.size, file.sha256, say):
            continue
        content = fetch(file)
        make_directory(directory)
        atomic_write(place, content)
        say(f"{place}: {len(content):,} bytes, SHA-256 as expected")


def _write_dates(directory: Path, say: Callable[[str], None]) -> None:
    """Generate the data set `dates`. Files of the same names with other contents stay."""
    missing = {
        name: content
        for name, content in date_files(date_pairs()).items()
        if not _is_there(directory / name, len(content), hashlib.sha256(content).hexdigest(), say)
    }
    make_directory(directory)
    for name, content in missing.items():
        atomic_write(directory / name, content)
        say(f"{directory / name}: generated")


def _is_there(place: Path, size: int, sha256: str, say: Callable[[str], None]) -> bool:
    """Return whether a file exists; raise `DataError` if its size or its content is another."""
    if not place.exists():
        return False
    try:
        if not place.is_file() or place.stat().st_size != size:
            raise DataError(f"{place} exists and is not the file of {size:,} bytes; move it away")
        found = hashlib.sha256(place.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{place}: {why_unreadable(error)}") from None
    if found != sha256:
        raise DataError(
            f"{place} exists, but its SHA-256 is {found}, expected {sha256}; move it away"
        )
    say(f"{place} already exists")
    return True
