"""Term bases in TBX (ISO 30042): TBX-Basic of version 2 (`martif`) and of version 3 (`tbx`)."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from crosshead.errors import DataError, why_unreadable

_LANGUAGE = "http://www.w3.org/XML/1998/namespace lang"
_ENTRIES, _LANGUAGES = ("termEntry", "conceptEntry"), ("langSet", "langSec")
_TERMS = ("tig", "ntig", "termSec")
_TEXTS = ("term", "termNote", "administrativeStatus")

_USUAL = 1
_RANKS = {"preferred": 0, "deprecated": 2, "superseded": 2}
"""The ranks of terms by the beginnings of their status. Targets with a low rank are better."""


class _Concept(NamedTuple):
    """An entry: its line, and the ranks and terms of each language."""

    line: int
    terms: dict[str, list[tuple[int, str]]]


def tbx_entries(
    path: Path, source: str | None, target: str | None
) -> Iterator[tuple[str, list[str], str]]:
    """Yield the entries that have both languages: place, source terms, best target term."""
    concepts = _Reader(path).concepts
    codes = sorted({code for concept in concepts for code in concept.terms})
    target_code = _code(path, "target", target, codes, source)
    source_code = _code(path, "source", source, codes, target_code)
    for concept in concepts:
        sources, targets = (sorted(concept.terms.get(each, []), key=lambda term: term[0])
                            for each in (source_code, target_code))  # fmt: skip
        if sources and targets:
            yield f"{path}:{concept.line}", [term for _, term in sources], targets[0][1]


def _code(
    path: Path, side: str, wanted: str | None, codes: Collection[str], other: str | None
) -> str:
    """Return the language of a side, as the file writes it."""
    found = [each for each in codes if means(wanted, each)] if wanted else [
        each for each in codes if not (other and means(other, each))
    ]  # fmt: skip
    exact = [each for each in found if wanted and each.lower() == wanted.lower()]
    found = exact or found
    if len(found) != 1:
        asked = f"{wanted!r} is {'ambiguous' if found else 'missing'}" if wanted else "is not given"
        raise DataError(
            f"{path}: the {side} language {asked}; choose one of {', '.join(codes) or 'none'}"
        )
    return found[0]


def means(wanted: str, code: str) -> bool:
    """Return whether a code is of a language: `en` means `en-US`, too."""
    return f"{code.lower()}-".startswith(f"{wanted.lower()}-")


class _Reader:
    """The concepts of a file. Entities are refused, and nothing outside the file is read."""

    def __init__(self, path: Path) -> None:
        self.path, self.concepts = path, list[_Concept]()
        self._language = self._field = self._text = self._term = ""
        self._rank = _USUAL
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.EntityDeclHandler = self._add, self._refuse
        try:
            parser.Parse(path.read_bytes(), True)
        except OSError as error:
            raise DataError(f"{path}: {why_unreadable(error)}") from None
        except expat.ExpatError as error:
            raise DataError(
                f"{path}:{error.lineno}: no well-formed XML ({expat.ErrorString(error.code)}); "
                "export the term base again"
            ) from None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = _local(name)
        if name in _ENTRIES:
            self.concepts.append(_Concept(self._parser.CurrentLineNumber, {}))
        elif name in _LANGUAGES:
            self._language = attributes.get(_LANGUAGE, "")
        elif name in _TERMS:
            self._term, self._rank = "", _USUAL
        elif name in _TEXTS:
            self._field, self._text = attributes.get("type", name), ""

    def _end(self, name: str) -> None:
        name = _local(name)
        if name == "term":
            self._term = " ".join(self._text.split())
        elif name in _TEXTS and self._field == "administrativeStatus":
            ranks = (rank for word, rank in _RANKS.items() if self._text.strip().startswith(word))
            self._rank = next(ranks, _USUAL)
        elif name in _TERMS and self._term and self.concepts:
            terms = self.concepts[-1].terms.setdefault(self._language, [])
            terms.append((self._rank, self._term))

    def _add(self, text: str) -> None:
        self._text += text

    def _refuse(self, name: str, *_: object) -> None:
        raise DataError(
            f"{self.path}:{self._parser.CurrentLineNumber}: the entity {name} is declared, which "
            "may hide a very large text; write its text in its place"
        )


def _local(name: str) -> str:
    """Return a name of an element without its namespace."""
    return name.rpartition(" ")[2]
