"""A block of a document: texts with markup between them, which are translated as one text."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from crosshead.text.documents.document import TextPart, unchanged
from crosshead.text.marks import FIRST, MOST, Kind, character_of, without_tags

_NO_TEXT = {0: None, 0xFFFD: None}
"""Browsers ignore NUL, and may take its replacement for white space."""


_IN_TAGS = ["open", None, "close"]


class _Item(NamedTuple):
    """A text, or markup, which has no text. The tags of a pair have the same number."""

    markup: Sequence[TextPart]
    text: str = ""
    kind: Kind | None = None
    number: int = 0

    @property
    def is_edge(self) -> bool:
        """True if it stays where it is at an end of the block."""
        return not self.text.strip() and self.kind in (None, "lone")


class Block:
    """Collects the texts and the markup of a block, in the order of the document."""

    def __init__(self, write: Callable[[str], str] = unchanged) -> None:
        self._write = write
        self._items: list[_Item] = []
        self._open: list[tuple[str, int]] = []
        self._names = Counter[str]()

    def add(self, raw: str, text: str | None = None) -> None:
        """Add a text as it stands in the document, and as a person reads it."""
        if raw:
            self._items.append(_Item([TextPart(raw)], raw if text is None else text))

    def mark(self, markup: Sequence[TextPart], kind: Kind = "lone", name: str = "") -> None:
        """Add markup: the beginning or the end of a pair with a name, or markup without partner."""
        number = len(self._items)
        if kind == "open":
            self._open.append((name, number))
            self._names[name] += 1
        elif kind == "close":
            while self._names[name]:
                found, number = self._open.pop()
                self._names[found] -= 1
                if found == name:
                    break
        self._items.append(_Item(markup, kind=kind, number=number))

    def parts(self) -> list[TextPart]:
        """Return the parts of the block.

        White space, lone markup, and pairs around everything stay where they are at its ends.
        """
        items = _with_mentions(self._items)
        if not any(item.text.strip() for item in items):
            return _markup(items)
        first, last = 0, len(items)
        while True:
            begin, end = items[first], items[last - 1]
            if begin.is_edge:
                first += 1
            elif end.is_edge:
                last -= 1
            elif begin.kind == "open" and end.kind == "close" and begin.number == end.number:
                first, last = first + 1, last - 1
            else:
                break
        middle = items[first:last]
        texts = self._texts(middle) if len(middle) > MOST else [self._text(middle)]
        return [*_markup(items[:first]), *texts, *_markup(items[last:])]

    def _texts(self, items: Sequence[_Item]) -> list[TextPart]:
        """Return each text by itself, since there are too few characters for all marks."""
        return [
            part
            for item in items
            for part in (
                [TextPart(item.text, True, self._write)] if item.text.strip() else item.markup
            )
        ]

    def _text(self, items: Sequence[_Item]) -> TextPart:
        """Return the text of items, with a character in place of each markup."""
        text, raw = "", ""
        marks: dict[str, Sequence[TextPart]] = {}
        for item in items:
            if item.kind is None:
                # A character of the document itself must not be taken for a mark.
                text += "".join(each if ord(each) < FIRST else "\ufffd" for each in item.text)
                raw += item.markup[0].text
            else:
                character = character_of(item.kind, item.number)
                marks[character] = item.markup
                text, raw = text + character, raw + character

        def write(found: str) -> str:
            # What stands around a text may depend on it, so a blank translation is not written.
            blank = not without_tags(found).translate(_NO_TEXT).strip()
            return raw if blank else self._write(found)

        return TextPart(text, True, write, marks)


def _with_mentions(items: Sequence[_Item]) -> list[_Item]:
    """Return items in which a name in tags behind @ or #, as Mastodon writes it, is one word."""
    found, place = list[_Item](), 0
    while place < len(items):
        item, following = items[place], items[place + 1 : place + 4]
        place += 1
        if item.text[-1:] in ("@", "#") and [each.kind for each in following] == _IN_TAGS:
            opened, name, closed = following
            raw = item.markup[0].text
            if opened.number == closed.number and name.text.isidentifier() and raw[-1] in "@#":
                if item.text[:-1]:
                    found.append(_Item([TextPart(raw[:-1])], item.text[:-1]))
                markup = [TextPart(raw[-1]), *_markup(following)]
                found.append(_Item(markup, kind="word", number=opened.number))
                place += 3
                continue
        found.append(item)
    return found


def _markup(items: Sequence[_Item]) -> list[TextPart]:
    """Return items as they stand in the document."""
    return [part for item in items for part in item.markup]
