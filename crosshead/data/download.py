"""Data sets that can be had from their public sources: `crosshead data get`."""

import gzip
import hashlib
import http.client
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crosshead.config import nearest
from crosshead.data.synthetic import date_pairs, write_date_files
from crosshead.errors import DataError
from crosshead.files import atomic_write, make_directory

TIMEOUT = 30.0
"""Seconds without an answer after which a download is given up."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a data set: its name, where it is, and the SHA-256 of its content (gunzipped)."""

    name: str
    url: str
    sha256: str


def _multi30k(name: str, sha256: str) -> RemoteFile:
    # The commit stands in the address, so that what is there does not change.
    commit = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
    base = f"https://raw.githubusercontent.com/multi30k/dataset/{commit}/data/task1/raw"
    return RemoteFile(name, f"{base}/{name}.gz", sha256)


DATA_SETS: dict[str, list[RemoteFile]] = {
    # Elliott et al. 2016 (WMT multimodal task 1): image captions in four languages, raw text.
    "multi30k": [
        _multi30k("train.en", "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
        _multi30k("train.de", "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
        _multi30k("train.fr", "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d"),
        _multi30k("train.cs", "2be68b38c8d586ff4f54eb13cc6e1baaaa053695b3f070d3038303a47f2268da"),
        _multi30k("val.en", "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
        _multi30k("val.de", "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
        _multi30k("val.fr", "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc"),
        _multi30k("val.cs", "d53827e469b0a1ca8d57e9e26b2b64c4bc4b33f5479c7b03ae87ae5c882c3e33"),
        _multi30k(
            "test_2016_flickr.en",
            "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        ),
        _multi30k(
            "test_2016_flickr.de",
            "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        ),
        _multi30k(
            "test_2016_flickr.fr",
            "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
        ),
        _multi30k(
            "test_2016_flickr.cs",
            "45adb85f688de8407fddcbe1b36dca15d12aab868149b337e2576f2d6d2ff8d8",
        ),
    ],
    # Works of Shakespeare, 1.1 MB of text.
    "tinyshakespeare": [
        RemoteFile(
            "input.txt",
            "https://raw.githubusercontent.com/karpathy/char-rnn/"
            "6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt",
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        )
    ],
    # Zhou et al. 2021 (CC BY-ND 4.0): an electricity transformer's temperature, hourly.
    "ett": [
        RemoteFile(
            "ETTh1.csv",
            "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/"
            "1d16c8f4f943005d613b5bc962e9eeb06058cf07/ETT-small/ETTh1.csv",
            "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
        )
    ],
}
"""Every data set by name."""

DATES = "dates"
"""English and German dates, which are made and not downloaded."""


def download(name: str, directory: Path, say: Callable[[str], None]) -> None:
    """Download the data set `name` into `directory`; `say` is told of each file.

    `dates` needs no network: it is made on the spot (`crosshead.data.synthetic`).
    A file that is there already, with the right checksum, stays. Raises `DataError` for an unknown
    name, where the source cannot be reached, and where what it sends, or a file that is in the way,
    is not what was expected.
    """
    if name == DATES:
        for path in write_date_files(directory, date_pairs()):
            say(f"{path}: made here")
        return
    if name not in DATA_SETS:
        raise DataError(f"there is no data set {name!r}; {nearest(name, [*DATA_SETS, DATES])}")
    for file in DATA_SETS[name]:
        place = directory / file.name
        if place.exists():
            _check_existing(place, file)
            say(f"{place} is there already")
            continue
        content = _content(file)
        found = hashlib.sha256(content).hexdigest()
        if found != file.sha256:
            raise DataError(
                f"{file.url}: its SHA-256 is {found}, expected {file.sha256}: it was damaged on "
                "the way or changed at its source; nothing was written"
            )
        make_directory(directory)
        atomic_write(place, content)
        say(f"{place}: {len(content):,} bytes, SHA-256 as expected")


def _check_existing(place: Path, file: RemoteFile) -> None:
    try:
        found = hashlib.sha256(place.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{place}: cannot be read: {error.strerror}") from None
    if found != file.sha256:
        raise DataError(
            f"{place}: is in the way: its SHA-256 is {found}, expected {file.sha256}; move it away"
        )


def _content(file: RemoteFile) -> bytes:
    """What the file's source sends, gunzipped where its address ends in `.gz`."""
    try:
        with urllib.request.urlopen(file.url, timeout=TIMEOUT) as answer:
            content: bytes = answer.read()
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{file.url}: {error}; the file is no longer at its source") from None
    except (OSError, http.client.HTTPException) as error:
        host = urllib.parse.urlsplit(file.url).netloc
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"cannot download {file.name} from {host} ({reason}); `data get` needs the network, "
            "every other command takes local files"
        ) from None
    if not file.url.endswith(".gz"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file.url}: what it sends is not a whole gzip file ({error})") from None
