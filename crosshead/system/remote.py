"""Download files over HTTP, and check their known size and SHA-256."""

import hashlib
import http.client
import threading
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from crosshead.errors import DataError

TIMEOUT = 30.0
"""Seconds without an answer after which a download is given up."""

LONGEST = 600.0
"""The largest number of seconds for one file. It also stops a download from a very slow server."""

MOST_REDIRECTS = 5
"""The largest number of redirects that are followed."""

_CHUNK = 1 << 16
_SCHEMES = ("http", "https")
"""Schemes in order of safety. A redirect may lead to the same scheme or a later one."""

_REDIRECTS = (301, 302, 303, 307, 308)


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

    @property
    def packed(self) -> bool:
        """True if the file is sent as gzip."""
        return self.url.endswith(".gz")

    @property
    def most_sent(self) -> int:
        """The largest number of bytes that a server may send. Gzip makes a file hardly larger."""
        return self.size + self.size // 100 + 4096 if self.packed else self.size


def fetch(file: RemoteFile) -> bytes:
    """Download a file, and gunzip it if its address ends in `.gz`.

    Both the bytes received and the unpacked bytes are limited by the size of the file. Redirects
    may lead only to HTTP servers, and from HTTPS only to HTTPS.
    """
    # A separate thread, so that the time limit also holds for name lookup and headers.
    download = _Download(file)
    download.start()
    download.join(LONGEST)
    if download.is_alive():
        raise DataError(
            f"{file.url}: the download takes more than {LONGEST:,.0f} seconds; try again later, or "
            "copy the file from elsewhere"
        )
    if download.error is not None:
        raise download.error
    return download.content


class _Download(threading.Thread):
    """A download in a thread beside the main thread."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__(daemon=True)  # the program can end while it runs
        self._file = file
        self.content = b""
        self.error: BaseException | None = None

    def run(self) -> None:
        """Fetch the file, and keep the content or the error."""
        try:
            self.content = _checked(self._file)
        except BaseException as error:
            self.error = error


def _checked(file: RemoteFile) -> bytes:
    """Return the content of a file after checking its size and its SHA-256."""
    content = bytearray()
    for chunk in _unpacked(file) if file.packed else _sent(file):
        content += chunk
        if len(content) > file.size:
            raise _refused(file.url, f"holds more than the {file.size:,} bytes expected")
    if len(content) < file.size:
        raise _refused(file.url, f"holds {len(content):,} bytes, expected {file.size:,}")
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise _refused(file.url, f"its SHA-256 is {found}, expected {file.sha256}")
    return bytes(content)


def _refused(url: str, why: str) -> DataError:
    return DataError(
        f"{url}: {why}: it was damaged in transfer or changed at its source; nothing was written"
    )


def _sent(file: RemoteFile) -> Iterator[bytes]:
    """Yield the bytes that the server sends, up to the largest size."""
    count = 0
    try:
        with _answer(file.url) as answer:
            while chunk := answer.read(_CHUNK):
                yield chunk
                count += len(chunk)
                if count > file.most_sent:
                    raise _refused(file.url, f"sends more than {file.most_sent:,} bytes")
    except (OSError, http.client.HTTPException, ValueError) as error:
        host = urllib.parse.urlsplit(file.url).netloc
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise DataError(
            f"cannot download {file.name} from {host} ({reason}); `data get` needs the network; "
            "all other commands take local files"
        ) from None


def _answer(url: str) -> Any:
    """Return the server's response, after redirects whose bodies are not read."""
    opener = urllib.request.OpenerDirector()  # urllib's default opener also opens files and FTP
    for handler in (
        urllib.request.ProxyHandler(), urllib.request.HTTPHandler(), urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(), urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):  # fmt: skip
        opener.add_handler(handler)
    place = url
    for _ in range(MOST_REDIRECTS + 1):
        try:
            return opener.open(place, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            error.close()
            where = error.headers.get("Location")
            if error.code not in _REDIRECTS or not where:
                raise DataError(
                    f"{url}: HTTP {error.code} {error.reason}; the file is no longer at its source"
                ) from None
        scheme, place = urllib.parse.urlsplit(place).scheme, urllib.parse.urljoin(place, where)
        if urllib.parse.urlsplit(place).scheme not in _SCHEMES[_SCHEMES.index(scheme) :]:
            raise DataError(
                f"{url}: redirects to {place!r}, expected an address of {scheme}; the file is no "
                "longer at its source"
            )
    raise DataError(
        f"{url}: redirects more than {MOST_REDIRECTS} times; the file is no longer at its source"
    )


def _unpacked(file: RemoteFile) -> Iterator[bytes]:
    """Yield the gunzipped content, in chunks of limited size however strong the compression is."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        for chunk in _sent(file):
            while chunk:
                if unpacker.eof:  # a gzip file may consist of several members
                    unpacker = zlib.decompressobj(wbits=31)
                yield unpacker.decompress(chunk, _CHUNK)
                chunk = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    except zlib.error as error:
        raise DataError(
            f"{file.url}: incomplete or damaged gzip file ({error}); try again later"
        ) from None
    if not unpacker.eof:
        raise DataError(f"{file.url}: incomplete gzip file (its end is missing); try again later")
