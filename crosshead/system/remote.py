"""Download files over HTTP, and check their known size and SHA-256."""

import gzip
import hashlib
import http.client
import io
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from dataclasses import dataclass

from crosshead.errors import DataError

TIMEOUT = 30.0
"""Seconds without an answer after which a download is given up."""

LONGEST = 600.0
"""The largest number of seconds for one file. It also stops a download from a very slow server."""

_CHUNK = 1 << 16


@dataclass(frozen=True)
class RemoteFile:
    """A file of a data set."""

    name: str
    url: str
    """The address of the file. A file whose address ends in `.gz` is gunzipped."""
    size: int
    """The size of the gunzipped content in bytes."""
    sha256: str
    """The SHA-256 of the gunzipped content."""


def fetch(file: RemoteFile) -> bytes:
    """Download a file, and gunzip it if its address ends in `.gz`.

    The bytes received and the unpacked bytes are limited by the size of the file.
    """
    content = _sent(file)
    if file.url.endswith(".gz"):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as unzipped:
                content = unzipped.read(file.size + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"{file.url}: incomplete or damaged gzip file ({error}); try again later"
            ) from None
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != file.sha256:
        raise DataError(
            f"{file.url}: its SHA-256 is {sha256}, expected {file.sha256}: it was damaged in "
            "transfer or changed at its source; try again later"
        )
    return content


def _sent(file: RemoteFile) -> bytes:
    """Return the bytes that the server sends, up to a few more than the file has."""
    content, end = bytearray(), time.monotonic() + LONGEST
    try:
        with urllib.request.urlopen(file.url, timeout=TIMEOUT) as answer:
            # Gzip makes a file hardly larger.
            most = file.size + file.size // 100 + 4096
            while len(content) < most and (chunk := answer.read1(_CHUNK)):
                content += chunk
                if time.monotonic() > end:
                    raise TimeoutError(f"the download takes more than {LONGEST:,.0f} seconds")
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{file.url}: {error}; the file is no longer at its source") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        host = urllib.parse.urlsplit(file.url).netloc
        raise DataError(
            f"cannot download {file.name} from {host} ({error or type(error).__name__}); "
            "`data get` needs the network; all other commands take local files"
        ) from None
    return bytes(content)
