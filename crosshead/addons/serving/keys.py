"""API keys, rates and usage: who may ask, how often, and how much they have asked."""

import hashlib
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crosshead.errors import UserError

_MOST_CLIENTS = 10_000
"""The number of clients whose rates are known; the client that asked longest ago is forgotten."""


_LINE = re.compile(r"([0-9a-f]{64})\s+(\S+)(?:\s+([0-9]+))?")


class KeysError(UserError):
    """A file of keys is missing or wrong."""


@dataclass(frozen=True)
class ApiKey:
    """A key that may use the server.

    Attributes:
        name: Its name, which is not secret.
        per_minute: The largest number of requests a minute; 0 is no limit, None the server's limit.
    """

    name: str
    per_minute: int | None = None


class Keys:
    """The keys of a file, of which only the SHA-256 hashes are stored."""

    def __init__(self, keys: Mapping[str, ApiKey]) -> None:
        self._keys = dict(keys)

    def find(self, secret: str) -> ApiKey | None:
        """Return the key of a secret, or None. Every comparison takes the same time."""
        digest = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
        found = None
        for known, key in self._keys.items():
            if hmac.compare_digest(known, digest):
                found = key
        return found


def read_keys(path: Path) -> Keys:
    """Read a file of keys: in each line a hash, a name, and, optionally, requests a minute."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise KeysError(f"{path}: cannot be read: {reason}; give a file of keys") from None
    keys: dict[str, ApiKey] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        fields = _LINE.fullmatch(line)
        if fields is None:
            raise KeysError(
                f"{path}:{number}: expected the SHA-256 of a key in 64 hexadecimal digits, a name, "
                "and, optionally, requests a minute; make the hash with `printf %s KEY | sha256sum`"
            )
        digest, name, rate = fields.groups()
        if digest in keys or any(name == each.name for each in keys.values()):
            what = "key" if digest in keys else "name"
            raise KeysError(f"{path}:{number}: an earlier line has the same {what}; remove one")
        keys[digest] = ApiKey(name, None if rate is None else int(rate))
    if not keys:
        raise KeysError(f"{path}: no key is in it; add a line, or leave out --keys")
    return Keys(keys)


class Rates:
    """Requests a minute of each client.

    Each client has a bucket that fills evenly, and a request takes one from it.
    """

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(
        self,
        client: str,
        per_minute: int | None = None,
        now: float | None = None,
        *,
        count: bool = True,
    ) -> float:
        """Count a request, and return 0, or the seconds until the next one is allowed."""
        limit = self.per_minute if per_minute is None else per_minute
        if not limit:
            return 0.0
        now = time.monotonic() if now is None else now
        filled, before = self._buckets.pop(client, (float(limit), now))
        filled = min(float(limit), filled + (now - before) * limit / 60)
        allowed = filled >= 1
        self._buckets[client] = (filled - 1 if allowed and count else filled, now)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - filled) * 60 / limit


class Usage:
    """Translated characters of each client since the server started."""

    def __init__(self) -> None:
        self._characters: OrderedDict[str, int] = OrderedDict()

    def add(self, client: str, characters: int) -> None:
        """Count the characters of a translated request."""
        self._characters[client] = self._characters.pop(client, 0) + characters
        if len(self._characters) > _MOST_CLIENTS:
            self._characters.popitem(last=False)

    def characters(self, client: str) -> int:
        """Return the number of characters of a client."""
        return self._characters.get(client, 0)
