"""Marks in a sentence: inline tags and placeholders, which its translation keeps.

A parser of documents writes each inline tag as one character of the last plane of Unicode, which is
for private use (`character_of`). Tags and placeholders in plain text are found here.
A model that reads marks gets placeholders as pieces between its tokens (`Marked.marks`) and writes
them itself (`Marked.written`). Tags, and the placeholders of other models, are taken out, and
`Marked.projected` puts them into the translation. Both ways have each mark exactly once, and pairs
nested as in the source.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, NamedTuple

import regex

from crosshead.text.glossary import Term
from crosshead.text.markers import MOST_MARKS, Mark
from crosshead.text.placing import STUCK, MarkSpan, WordLinks, placed, with_span, written
from crosshead.text.scripts import UNSPACED_RANGES, is_spaced
from crosshead.text.visible import visible

FIRST = 0x100000
"""The first character that stands for a tag of a document."""

MOST = (0x10FFFD - FIRST) // 4
"""The largest number of tags in one text of a document."""

Kind = Literal["open", "close", "lone", "word"]
"""The kinds of marks. A word stands alone for a word of its sentence, such as a placeholder."""

_CHARACTER = re.compile(r"[\U00100000-\U0010fffd]")
_KINDS: tuple[Kind, ...] = ("open", "close", "lone", "word")

_ATTACHED = "".join(UNSPACED_RANGES.values()) + "\u1100-\u11ff\uac00-\ud7af"
"""Letters that stand beside placeholders without a space: of scripts without spaces, and Hangul,
whose endings follow a name."""

_W = rf"[^\W{_ATTACHED}]"
"""A letter or digit that is part of a name or placeholder."""

_ATTRIBUTES = r"(?:\s++(?:(?:[^<>\"']|\"[^<\"]*+\"|'[^<']*+')*+(?=>)|[^<>]*+))?+"
_TAG = rf"</?[A-Za-z][\w:.-]*+{_ATTRIBUTES}/?+>|</?\d++/?+>|<\d++(?::\d\d)++\.\d++>"
_OF_ADDRESS = rf"[^\s<>\"{_ATTACHED}\u3000-\u303f\uff00-\uffef\U00100000-\U0010fffd]"
_MARK = re.compile(
    r"[\U00100000-\U0010fffd]"
    rf"|(?P<tag>{_TAG})"
    rf"|<!--[^<>]*-->|<%[^<>%]*+%>|\{{%[^{{}}%]*+%\}}"
    rf"|(?:(?<!{_W})[A-Za-z][A-Za-z+.-]{{1,15}}+://|(?i:www\.)){_OF_ADDRESS}*(?:{_W}|[/=#&}}-])"
    rf"|(?<!{_W})(?<![.+-])(?:{_W}|[.+-])++@(?:{_W}|-)++(?:\.(?:{_W}|-)++)++"
    r"|\$?\{\{[^{}\U00100000-\U0010fffd]*\}\}|[$%#@]?\{ ?[^{}\s\U00100000-\U0010fffd]* ?\}"
    r"|\{\s*+\w++\s*+,\s*+\w++\s*+,(?:[^{}\U00100000-\U0010fffd]|\{[^{}\U00100000-\U0010fffd]*\})*+\}"
    rf"|(?<!{_W})\${_W}+\$"
    rf"|%(?:\(\w+\))?(?:\d++\$)?[-+#]*+\d*+(?:\.\d++)?(?:[hlLzjt]{{0,2}}[diouxXceEfgGps]|@)(?:(?!{_W})|(?=x?%))|%%"
    rf"|(?<!{_W})__{_W}+?__(?!{_W})"
)
"""Characters of documents, tags, addresses and the placeholders of catalogues of messages."""

_WORD = "word"
"""The name of placeholders, which stand for words."""

_NAME = re.compile(r"</?([\w:.-]+)")

_SIGN = regex.compile(
    r"(?:[\u2022\u2023]|\p{Regional_Indicator}{2}|[0-9#*]\ufe0f?\u20e3|(?:(?!\p{ASCII})[\p{So}\p{Sm}]"
    r"|\p{Extended_Pictographic})[\ufe0e\ufe0f\u20e3\p{Emoji_Modifier}\U000e0020-\U000e007f]*"
    r"(?:\u200d\p{Extended_Pictographic}[\ufe0e\ufe0f\p{Emoji_Modifier}]*)*)"
)
"""An emoji of one or more characters, or another sign, such as a bullet."""

_NAMED = re.compile(
    rf"(?<!{_W})(?<![@#/.\\~-])(?:[@#][^\W\d_{_ATTACHED}]{_W}*+(?:[.-]{_W}++)*+"
    rf"|(?:[A-Za-z]:[\\/])?(?:(?:{_W}|[.~-])*+[\\/])*+"
    rf"(?:{_W}|-)++(?:\.(?:{_W}|-)++)*?\.(?:pdf|docx?|xlsx?|pptx?|odt|txt|csv|json|xml|html?"
    rf"|jpe?g|png|gif|svg|mp[34]|zip|exe|py|js))(?!{_W})"
)
"""A name after @ or #, or the name of a file."""

_ENDS = (".", ",", ";", ":", "!", "?", "…")
"""Marks at the ends of sentences and clauses."""

_MOST = 200
"""The most marks of a sentence. A sentence with more is no text, and is kept as it is."""

_LABELLED = re.compile(r"\s*[:|/•·–—-]\s")
_SEPARATORS = re.compile(r"[\s:;,.|/•·–—-]*")


def character_of(kind: Kind, number: int) -> str:
    """Return the character of a tag. Both tags of a pair have one number, which no other has."""
    return chr(FIRST + len(_KINDS) * number + _KINDS.index(kind))


def with_markup(text: str, markup: Mapping[str, str]) -> str:
    """Return a text with markup in place of the characters of tags."""
    return _CHARACTER.sub(lambda match: markup.get(match[0], match[0]), text) if markup else text


def without_tags(text: str) -> str:
    """Return a text without the characters of tags, for people."""
    return _CHARACTER.sub("", text)


def split_marked(text: str, split: Callable[[str], list[str]]) -> list[str]:
    """Split a text by a function that does not see the characters of tags.

    A closing tag between two parts belongs to the first one, and every other tag to the second.
    """
    places = [(match.start(), match[0]) for match in _CHARACTER.finditer(text)]
    if not places:
        return split(text)
    parts: list[str] = []
    start = begin = taken = 0
    plain = _CHARACTER.sub("", text)
    pieces = split(plain) or [plain]
    for number, piece in enumerate(pieces):
        begin += len(piece)
        end = begin + taken
        while taken < len(places) and (
            number == len(pieces) - 1
            or places[taken][0] < end
            or (places[taken][0] == end and (ord(places[taken][1]) - FIRST) % len(_KINDS) == 1)
        ):
            taken += 1
            end += 1
        parts.append(text[start:end])
        start = end
    return parts


def tags_of(line: str) -> list[tuple[int, int, Kind, str]]:
    """Return the tags of a line of plain text: where they begin and end, kinds and names.

    Both tags of a pair have one name. A tag without a partner is lone.
    """
    items, found, end = list(_items(line, ())), list[tuple[int, int, Kind, str]](), 0
    for item, paired in zip(items, _paired(items)[0], strict=True):
        begin, end = end, end + len(item.raw)
        if paired.kind and item.raw[0] == "<" and item.name != _WORD:
            found.append((begin, end, paired.kind, paired.name))
    return found


def seen(line: str, unread: Collection[str] = ()) -> str:
    """Return a line in which all but the marks is as a person sees it (`visible`)."""
    if visible(line) == line:
        return line
    return "".join(item.raw if item.kind else visible(item.raw) for item in _items(line, unread))


def bare(text: str, unread: Collection[str] = ()) -> str:
    """Return a text without marks: about what a model reads of it."""
    return "".join(item.raw for item in _items(text, unread) if not item.kind)


def signs(text: str) -> set[str]:
    """Return the emoji and other signs of a text."""
    return set() if text.isascii() else set(_SIGN.findall(text))


def names(text: str) -> set[str]:
    """Return the names after @ and #, and of files, in a text."""
    return set(_NAMED.findall(text))


class _Item(NamedTuple):
    """A stretch of text, or a mark."""

    raw: str
    kind: Kind | None = None
    name: str = ""
    """The name that both tags of a pair have, or `_WORD` for a placeholder."""


@dataclass(frozen=True)
class Marked:
    """A sentence as its text and its marks.

    Attributes:
        before: Marks before the text, with what separates them from it.
        text: The text, without marks.
        after: Marks behind the text.
        spans: The marks in the text, as a tree.
        are_read: True if they are few enough for a model that reads marks.
        told: Terms of a glossary that a model is told. It may write other forms of them.
        in_capitals: True if the translation is written in capitals.
    """

    before: str
    text: str
    after: str
    spans: Sequence[MarkSpan] = ()
    are_read: bool = False
    told: Sequence[Term] = ()
    in_capitals: bool = False

    @classmethod
    def of(cls, line: str, unread: Collection[str] = (), *, are_read: bool = False) -> "Marked":
        """Take the marks out of a line.

        A model that reads marks gets placeholders, which are words of the sentence, also at its
        ends. Tags would make its translation worse (docs/translating.md).
        """
        items = list(_items(line, unread))
        are_read = are_read and any(item.name == _WORD for item in items)
        count = sum(item.kind is not None for item in items)
        if not count:
            return cls("", line, "", are_read=are_read)
        if count > _MOST:
            return cls(line, "", "")
        before, inside, after = _peeled(_matched(items), are_read)
        text, spans = _tree(inside)
        if are_read and sum(len(span.words()) for span in spans) > MOST_MARKS:
            return cls.of(line, unread)
        if spans and not any(character.isalnum() for character in text):
            return cls(line, "", "")
        return cls(before, text, after, spans, are_read)

    @property
    def has_ends(self) -> bool:
        """True if marks stand before or behind the text."""
        return bool(self.before or self.after)

    def projected(
        self, text: str, links: "WordLinks", ends: Sequence[int] = (), marks: Sequence[Mark] = ()
    ) -> str:
        """Return a translation of the text with the marks in it.

        `marks` are those that a model has written among its tokens, which end at the offsets
        `ends`.
        """
        words = self.words
        known = {id(words[each.number]): ends[each.at - 1] * (each.at > 0) for each in marks}
        return self.around(placed(text, self.spans, links, known) if self.spans else text)

    def around(self, text: str) -> str:
        """Return a translation with the marks before and behind it."""
        is_glued = text[-1:].isalnum() and (self.after[:1].isalnum() or self.after[:1] == "_")
        return self.before + text + " " * is_glued + self.after

    @property
    def words(self) -> list[MarkSpan]:
        """The marks that stand for words, in order. Their places there are their numbers."""
        return [each for span in self.spans for each in span.words()]

    def marks(self, ends: Sequence[int]) -> list[Mark]:
        """Return the marks for words among the tokens of the text, which end at these offsets."""
        return [
            Mark(bisect_right(ends, span.begin), number) for number, span in enumerate(self.words)
        ]

    def written(self, text: str, ends: Sequence[int], marks: Sequence[Mark]) -> str:
        """Return a translation with the marks that a model has written among its tokens.

        They are all marks of the sentence. `ends` are the offsets of the tokens.
        """
        words = self.words
        spans = [words[each.number] for each in marks]
        offsets = [ends[each.at - 1] * (each.at > 0) for each in marks]
        return self.around(written(text, spans, offsets))

    def with_terms(self, terms: Sequence[Term]) -> "Marked":
        """Return the sentence with terms: where they begin and end, and their translations.

        A term of which a pair of marks covers a part has no effect. A pair inside a term then
        stands around it.
        """
        if not terms:
            return self
        spans = [span.copied() for span in self.spans]
        for begin, end, target in terms:
            is_kept = target == self.text[begin:end]
            spans = with_span(spans, MarkSpan(begin, end, "", term=target, is_kept=is_kept))
        return replace(self, spans=spans)


def with_tags_of(sentence: str, translation: str) -> str:
    """Return a translation with the tags of its sentence.

    If it lacks one, or has one twice, its tags are placed anew as if the sentence was translated
    word by word in its order.
    """
    tags = sorted(_CHARACTER.findall(sentence))
    if tags == sorted(_CHARACTER.findall(translation)):
        return translation
    marked = Marked.of(sentence)
    text, _ = _tree([item for item in _items(translation, ()) if not item.kind])
    return marked.projected(text, WordLinks.in_order(marked.text, text))


def _items(line: str, unread: Collection[str]) -> Iterator[_Item]:
    """Yield the stretches of text and the marks of a line."""
    begin = 0
    found = [(match.span(), match) for match in _MARK.finditer(line)]
    if unread:
        begins = [begin for (begin, _), _ in found]
        ends = [0, *(end for (_, end), _ in found)]
        found += [
            (match.span(), match)
            for match in chain(_SIGN.finditer(line), _NAMED.finditer(line))
            if match[0] in unread and ends[bisect_left(begins, match.end())] <= match.start()
        ]
        found.sort(key=lambda each: each[0])
    for (start, end), match in found:
        if start > begin:
            yield _Item(line[begin:start])
        raw = match[0]
        if len(raw) == 1 and ord(raw) >= FIRST:
            number, kind = divmod(ord(raw) - FIRST, len(_KINDS))
            is_word = _KINDS[kind] == _WORD
            yield _Item(raw, "lone" if is_word else _KINDS[kind], _WORD if is_word else str(number))
        elif match.re is _MARK and match["tag"] and not raw.endswith("/>"):
            named = _NAME.match(raw)
            name = named[1].lower() if named else ""
            yield _Item(raw, "close" if raw[1] == "/" else "open", f"<{name}")
        else:
            is_word = match.re is _NAMED or (match.re is _MARK and not match["tag"])
            yield _Item(raw, "lone", _WORD if is_word else "")
        begin = end
    if begin < len(line):
        yield _Item(line[begin:])


def _matched(items: Sequence[_Item]) -> list[_Item]:
    """Return items as `_paired`, in which marks around nothing are one lone mark."""
    found, partner = _paired(items)
    for start, end in partner.items():
        if start < end and all(item.kind for item in found[start : end + 1]):  # it has no text
            raw = "".join(item.raw for item in found[start : end + 1])
            name = _WORD if any(item.name == _WORD for item in found[start : end + 1]) else ""
            empty = [_Item("", "lone")] * (end - start)
            found[start : end + 1] = [_Item(raw, "lone", name), *empty]
    return [item for item in found if item.raw]


def _paired(items: Sequence[_Item]) -> tuple[list[_Item], dict[int, int]]:
    """Return items in which a pair has one name, and a tag of plain text without one is lone.

    Beside them are the places of the partners of tags.
    """
    found, stack = list(items), list[int]()
    partner: dict[int, int] = {}
    for place, item in enumerate(items):
        if item.kind == "open":
            stack.append(place)
        elif item.kind == "close":
            while any(items[each].name == item.name for each in stack):
                start = stack.pop()
                if items[start].name == item.name:
                    partner |= {start: place, place: start}
                    break
                found[start] = item._replace(raw=items[start].raw, kind="lone")
            else:
                if stack:
                    found[place] = item._replace(kind="lone")
    for place, item in enumerate(found):
        if item.kind in ("open", "close"):
            if place in partner:
                found[place] = item._replace(name=str(min(place, partner[place])))
            elif item.name.startswith("<"):
                found[place] = item._replace(kind="lone")
            else:
                found[place] = item._replace(name="")
    return found, partner


def _peeled(items: list[_Item], are_read: bool) -> tuple[str, list[_Item], str]:
    """Take lone marks, and pairs around everything, off the ends of a sentence.

    Placeholders stay if they are read.
    """
    before, after = "", ""
    while items:
        first, last = items[0], items[-1]
        if first.kind is None and not first.raw.strip() and len(items) > 1:
            before, items = before + first.raw, items[1:]
        elif last.kind is None and not last.raw.strip() and len(items) > 1:
            items, after = items[:-1], last.raw + after
        elif first.kind == "open" and last.kind == "close" and first.name == last.name != "":
            before, items, after = before + first.raw, items[1:-1], last.raw + after
        elif first.kind == "lone" and (not (are_read and first.name == _WORD) or _labels(items)):
            before, items = before + first.raw, items[1:]
            if items and items[0].kind is None:
                match = _SEPARATORS.match(items[0].raw)
                cut = match.end() if match else 0
                before += items[0].raw[:cut]
                rest = items[0].raw[cut:]
                items = ([_Item(rest)] if rest else []) + items[1:]
        elif last.kind == "lone" and not (are_read and last.name == _WORD):
            items, after = items[:-1], last.raw + after
            if items and items[-1].kind is None:
                core = items[-1].raw.rstrip()
                after = items[-1].raw[len(core) :] + after
                items = items[:-1] + ([_Item(core)] if core else [])
        else:
            break
    return before, items, after


def _labels(items: Sequence[_Item]) -> bool:
    """Return whether the first item is a label of the others, as in `{name}: a sentence`."""
    return len(items) > 1 and not items[1].kind and bool(_LABELLED.match(items[1].raw))


def _tree(items: Sequence[_Item]) -> tuple[str, list[MarkSpan]]:
    """Return the text without marks, and its spans."""
    text = ""
    roots: list[MarkSpan] = []
    stack: list[MarkSpan] = []
    for place, item in enumerate(items):
        inside = stack[-1].inside if stack else roots
        if item.kind is None:
            if place and text.endswith(" ") and item.raw[0] in STUCK:
                text = text.rstrip(" ")
                for span in inside:
                    span.begin, span.end = min(span.begin, len(text)), min(span.end, len(text))
            text += item.raw.lstrip(" ") if place and text.endswith(" ") else item.raw
        elif item.kind == "open":
            text += " " * _begins_block(text, items, place)
            inside.append(MarkSpan(len(text), -1, item.raw))
            stack.append(inside[-1])
        elif item.kind == "close" and stack:
            stack[-1].end = len(text)
            stack.pop().after = item.raw
        elif item.kind == "close":  # it was opened in a sentence before
            whole = MarkSpan(0, len(text), "", item.raw, (True, False), inside=roots)
            roots = [whole]
        else:
            span = MarkSpan(len(text), len(text), item.raw, beside=_beside(items, place))
            span.is_word = item.name == _WORD
            span.is_joined = place > 0 and items[place - 1].kind == "lone"
            span.is_glued = _parts_words(text, items, place)
            text += " " * span.is_glued
            inside.append(span)
    for span in stack:
        span.end, span.fixed = len(text), (False, True)
    _simplify(text, roots)
    return text, roots


def _parts_words(text: str, items: Sequence[_Item], place: int) -> bool:
    """Return whether a mark alone stands between two words. Tags of documents do so in a word."""
    if _CHARACTER.match(items[place].raw) or place + 1 == len(items) or items[place + 1].kind:
        return False
    before, following = text[-1:], items[place + 1].raw[0]
    ends = before in _ENDS and items[place].name != _WORD  # a placeholder may be in a number
    return _in_spaced_word(following) and (_in_spaced_word(before) or ends)


def _begins_block(text: str, items: Sequence[_Item], place: int) -> bool:
    """Return whether a tag of plain text follows another of its name, as in `</p><p>`."""
    before, opened = items[place - 1].raw if place else "", _NAME.match(items[place].raw)
    closes = opened is not None and before == f"</{opened[1]}>"
    return closes and (_in_spaced_word(text[-1:]) or text[-1:] in _ENDS)


def _in_spaced_word(character: str) -> bool:
    return character.isalnum() and is_spaced(character)


def _simplify(text: str, spans: Sequence[MarkSpan]) -> None:
    """Find the spans without text, and make one pair of pairs around the same text."""
    for span in spans:
        span.is_lone = not text[span.begin : span.end].strip()
        _simplify(text, span.inside)
        if len(span.inside) == 1 and not any(span.fixed):
            [only] = span.inside
            gaps = text[span.begin : only.begin] + text[only.end : span.end]
            if not (only.is_lone or any(only.fixed) or gaps.strip()):
                span.before, span.after = span.before + only.before, only.after + span.after
                span.begin, span.end, span.inside = only.begin, only.end, only.inside


def _beside(items: Sequence[_Item], place: int) -> tuple[str, str]:
    """Return the characters on both sides of a mark, behind and before other marks."""
    sides = []
    for step, at in ((-1, -1), (1, 0)):
        other = place + step
        while 0 <= other < len(items) and items[other].kind is not None:
            other += step
        sides.append(items[other].raw[at] if 0 <= other < len(items) else " ")
    return sides[0], sides[1]
