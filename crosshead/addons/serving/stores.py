"""Data that the server keeps of requests: suggestions, and translated files for an hour."""

import hashlib
import json
import os
import re
import secrets
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from crosshead.errors import UserError

_MOST_BYTES = 50 * 2**20
"""The largest size of a file of suggestions, and of all translated files, in bytes."""
_MOST_EACH = _MOST_BYTES // 10
"""The bytes of suggestions that the server takes from a client between two starts."""

_LEAST_SIZE = 512 * 2**10
"""The bytes for which a smaller translated file counts, so that there are 100 files at most."""

_SECONDS = 3600.0


class Suggestions:
    """Suggested translations, appended to a file of JSON Lines; none is written twice.

    A line that was cut off, by a full disk or a crash, is ended before another one follows.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._written: Counter[str] = Counter()  # bytes by client
        try:
            with path.open("ab"):
                pass
            with path.open("rb") as lines:
                self._known = {_digest(line) for line in lines}
        except OSError as error:
            raise UserError(
                f"{path}: cannot be written: {error.strerror}; name another file of suggestions"
            ) from None

    def add(self, client: str, source: str, target: str, text: str, suggestion: str) -> bool:
        """Write a suggestion; return False if the file is full, or the client's part of it."""
        values = {"source": source, "target": target, "q": text, "s": suggestion}
        line = (json.dumps(values, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        with self._lock:
            if _digest(line) in self._known:
                return True
            with self._path.open("ab+") as lines:
                size = lines.seek(0, os.SEEK_END)
                if size:
                    lines.seek(size - 1)
                whole = not size or lines.read() == b"\n"
                added = line if whole else b"\n" + line
                full = size + len(added) > _MOST_BYTES
                if full or self._written[client] + len(added) > _MOST_EACH:
                    return False
                lines.write(added)
                self._written[client] += len(added)
            self._known.add(_digest(line))
        return True


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line.rstrip(b"\n")).digest()[:16]


class StoredFile(NamedTuple):
    """A translated file.

    Attributes:
        name: The name for the user's disk.
        data: Its content.
        client: The client that it is for.
        end: When it is forgotten, by `time.monotonic`.
    """

    name: str
    data: bytes
    client: str
    end: float


class Files:
    """Translated files in memory, by names that nobody can guess.

    If there are too many, the client whose files take the most memory loses its oldest one.
    """

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}

    def add(self, client: str, name: str, data: bytes) -> str:
        """Keep a file, and return its name in the address."""
        # Addresses with such parts are refused, because they look like ways out of a folder.
        safe = re.sub(r"^[.]|[.]{2,}|[/\\]", "_", name)
        token = f"{secrets.token_hex(16)}.{safe}"
        now = time.monotonic()
        added = StoredFile(name, data, client, now + _SECONDS)
        self._files = {key: each for key, each in self._files.items() if each.end > now}
        while self._files and _size(added) + sum(map(_size, self._files.values())) > _MOST_BYTES:
            sizes: Counter[str] = Counter()
            for each in self._files.values():
                sizes[each.client] += _size(each)
            if client in sizes:
                sizes[client] += _size(added)
            largest = sizes.most_common(1)[0][0]
            del self._files[
                next(key for key, each in self._files.items() if each.client == largest)
            ]
        self._files[token] = added
        return token

    def get(self, token: str) -> StoredFile | None:
        """Return a file, or None if it is not there any more."""
        found = self._files.get(token)
        if found is None or found.end <= time.monotonic():
            self._files.pop(token, None)
            return None
        return found


def _size(file: StoredFile) -> int:
    return max(_LEAST_SIZE, len(file.data))
