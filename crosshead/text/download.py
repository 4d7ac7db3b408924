"""Download public data sets by name: `crosshead data get`."""

import hashlib
import http.client
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from crosshead.config import nearest
from crosshead.errors import DataError, why_unreadable
from crosshead.extensions import added
from crosshead.system.files import atomic_write, make_directory
from crosshead.system.lines import file_sha256
from crosshead.text.synthetic import date_files, date_pairs

TIMEOUT = 30.0
"""Seconds without an answer after which a download is given up."""


class RemoteFile(NamedTuple):
    """A file of a data set."""

    name: str
    url: str
    """The address of the file. A file whose address ends in `.gz` is gunzipped."""
    size: int
    """The size of the gunzipped content in bytes."""
    sha256: str
    """The SHA-256 of the gunzipped content."""


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
    if name in generated:
        if directory.exists() and any(directory.iterdir()):
            raise DataError(f"{directory}: is not empty; name a new directory with --out")
        for path in generated[name](directory):
            say(f"{path}: generated")
        return
    made = date_files(date_pairs()) if name == DATES else {}
    files = DATA_SETS.get(name) or [
        RemoteFile(file, "", len(content), hashlib.sha256(content).hexdigest())
        for file, content in made.items()
    ]
    for file in [file for file in files if not _is_there(directory / file.name, file, say)]:
        content = made[file.name] if made else fetch(file)
        make_directory(directory)
        atomic_write(directory / file.name, content)
        say(f"{directory / file.name}: {len(content):,} bytes, SHA-256 as expected")


def fetch(file: RemoteFile) -> bytes:
    """Download a file, gunzip it if its address ends in `.gz`, and check its SHA-256.

    A server or an archive may send more than was asked for, so no more than the known size is read.
    """
    try:
        with urllib.request.urlopen(file.url, timeout=TIMEOUT) as answer:
            content: bytes = answer.read(file.size + 4096)  # gzip makes a small file larger
        if file.url.endswith(".gz"):
            content = zlib.decompressobj(wbits=31).decompress(content, file.size + 1)
    except zlib.error as error:
        raise DataError(f"{file.url}: damaged gzip file ({error}); try again later") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        host = urllib.parse.urlsplit(file.url).netloc
        raise DataError(
            f"cannot download {file.name} from {host} ({error}): `data get` needs the network; all "
            "other commands take local files"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise DataError(
            f"{file.url}: its SHA-256 is {found}, expected {file.sha256}: it was damaged in "
            "transfer or changed at its source; nothing was written"
        )
    return content


def _is_there(place: Path, file: RemoteFile, say: Callable[[str], None]) -> bool:
    """Return whether a file exists; raise `DataError` if its size or its content is another."""
    if not place.exists():
        return False
    try:
        is_same = place.is_file() and place.stat().st_size == file.size
        if not is_same or file_sha256(place) != file.sha256:
            raise DataError(
                f"{place} exists and is not the file of {file.size:,} bytes; move it away"
            )
    except OSError as error:
        raise DataError(f"{place}: {why_unreadable(error)}") from None
    say(f"{place} already exists")
    return True
