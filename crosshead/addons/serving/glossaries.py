"""Glossaries that clients store on the server, each for the API key that made it."""

import asyncio
import json
import os
import uuid
from collections import Counter
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from crosshead.addons.serving.errors import RequestError
from crosshead.errors import UserError
from crosshead.system.files import atomic_write, make_directory, remove_leftovers
from crosshead.text.glossary import Entry, Glossary, table_entries

MOST_ENTRIES = 10_000
"""The most entries of a glossary."""

_MOST = 100
"""The most glossaries of a key."""

_MOST_BYTES = 10 * 2**20
"""The largest size in bytes of the glossaries of a key together."""

_COMPILED = 8
"""The number of glossaries that are kept ready for use. 10,000 terms of two words take 12 MiB."""

_FULL = 456
"""DeepL's status of a request beyond what a key may have."""

compiled = lru_cache(_COMPILED)(Glossary)
"""Return the glossary of a tuple of entries."""


class StoredGlossary(BaseModel):
    """A glossary of one key, as its file has it."""

    model_config = ConfigDict(frozen=True)

    glossary_id: str
    owner: str
    name: str
    source_lang: str
    target_lang: str
    creation_time: str
    entries: tuple[Entry, ...]

    def description(self) -> dict[str, Any]:
        """Return the values that DeepL's clients read."""
        shown = self.model_dump(exclude={"owner", "entries"})
        return shown | {"ready": True, "entry_count": len(self.entries)}

    def table(self) -> str:
        """Return the entries as TSV."""
        return "\n".join(
            "\t".join(" ".join(cell.split()) for cell in each[:2]) for each in self.entries
        )


def entries_of(text: str, form: Literal["tsv", "csv"]) -> tuple[Entry, ...]:
    """Return the entries in a text of a request, after a check."""
    rows = table_entries(
        Path("entries"), text.replace("\r\n", "\n").split("\n"), is_quoted=form == "csv"
    )
    entries = tuple(entry for _, entry in islice(rows, MOST_ENTRIES + 1))
    if not 0 < len(entries) <= MOST_ENTRIES:
        raise RequestError(400, f"Invalid glossary entries: expected 1 to {MOST_ENTRIES:,}")
    compiled(entries)
    return entries


class Glossaries:
    """The glossaries of all keys, in memory, and in the files of a folder if there is one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._turn = asyncio.Lock()
        self._sizes: Counter[str] = Counter()  # bytes by owner
        self._stored: dict[str, StoredGlossary] = {}
        if folder is not None:
            make_directory(folder)
            if not os.access(folder, os.W_OK):
                raise UserError(f"{folder}: cannot be written; name another folder of glossaries")
            remove_leftovers(folder)
            for path in sorted(folder.glob("*.json")):
                self._keep(_read(path))

    def of(self, owner: str) -> list[StoredGlossary]:
        """Return the glossaries of an owner."""
        return [each for each in self._stored.values() if each.owner == owner]

    def get(self, owner: str, name: str) -> StoredGlossary:
        """Return a glossary by its id, or raise an error if this owner has none of that id."""
        found = self._stored.get(name)
        if found is None or found.owner != owner:
            raise RequestError(404, "Glossary not found")
        return found

    async def add(
        self, owner: str, name: str, languages: tuple[str, str], entries: tuple[Entry, ...]
    ) -> StoredGlossary:
        """Store a glossary."""
        made = StoredGlossary(
            glossary_id=str(uuid.uuid4()), owner=owner, name=name, source_lang=languages[0],
            target_lang=languages[1], creation_time=datetime.now(UTC).isoformat(), entries=entries,
        )  # fmt: skip
        data = _data(made)
        async with self._turn:
            full = self._sizes[owner] + len(data) > _MOST_BYTES
            if full or len(self.of(owner)) >= _MOST:
                raise RequestError(
                    _FULL, f"Too many glossaries: delete one; a key has at most {_MOST}, with "
                    f"{_MOST_BYTES:,} bytes together",
                )  # fmt: skip
            if self._folder is not None:
                await asyncio.to_thread(_write, self._folder / f"{made.glossary_id}.json", data)
            self._keep(made)
        return made

    async def delete(self, owner: str, name: str) -> None:
        """Remove a glossary."""
        async with self._turn:
            found = self.get(owner, name)
            if self._folder is not None:
                await asyncio.to_thread((self._folder / f"{name}.json").unlink, missing_ok=True)
            del self._stored[name]
            self._sizes[owner] -= len(_data(found))

    def _keep(self, glossary: StoredGlossary) -> None:
        self._stored[glossary.glossary_id] = glossary
        self._sizes[glossary.owner] += len(_data(glossary))


def _data(glossary: StoredGlossary) -> bytes:
    return json.dumps(glossary.model_dump(), ensure_ascii=False).encode()


def _write(path: Path, data: bytes) -> None:
    try:
        atomic_write(path, data)
    except UserError:  # its message has the path
        raise RequestError(500, "the glossary cannot be stored") from None


def _read(path: Path) -> StoredGlossary:
    try:
        return StoredGlossary.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise UserError(f"{path}: no glossary of this server; move it to another place") from None
