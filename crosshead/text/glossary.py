"""Glossaries: terms that a translation must use, and the places of these terms in a text.

A glossary finds terms by whole words, and in scripts without spaces by characters. Case is ignored,
but if entries differ in case alone, the one in the case of the text wins. An abbreviation (2 to 5
letters, all capitals, such as US) is found in capitals only.

No dictionary tells which words are forms of one word. Two words count as such forms if their common
beginning has `STEM` letters or more, and at most `ENDING` letters are left of each. If the shorter
word is the common beginning itself, one letter less is enough. So `coat` finds `coats`, and
`arbeiten` finds `arbeitet`, but not `Arbeiterin`. Each word of a longer term is found so. A word
with a digit has no other forms. Forms that this rule misses (`run`, `ran`) stand in the entry.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import regex

from crosshead.errors import DataError
from crosshead.system.lines import read_lines
from crosshead.text.parallel.pairs import composed
from crosshead.text.parallel.tables import Form, csv_form, is_csv
from crosshead.text.scripts import UNSPACED_RANGES
from crosshead.text.tbx import means, tbx_entries

STEM, ENDING = 5, 2
"""The least letters of a common beginning, and the most letters that are left of each word.

Chosen on Multi30k: 100 random words as terms (4 letters or more, at least 5 times in the training
text, none of its 150 most frequent words), and all other words of the text that they find, judged
by eye. In English they find 98 words: 64 inflected forms of the term, 24 derived words (`paint`,
`painter`) and 10 unrelated ones (`react`, `reach`); in German 165: 131, 25 and 9. With beginnings
of 4 letters and endings of 3, 68 of 206 words and 74 of 276 are unrelated, and 84 and 153
inflected. With 6 and 2 there are 6 and 5 unrelated words, and 64 and 121 inflected ones."""

_UNSPACED = "".join(UNSPACED_RANGES.values())
_TOKEN = regex.compile(
    rf"(?V1)[{_UNSPACED}]\p{{M}}*|[\w--[{_UNSPACED}]]+(?:-[\w--[{_UNSPACED}]]+)*|\S"
)
"""A word, a character of a script without spaces, or a sign. A hyphen joins words."""

_ABBREVIATION = regex.compile(r"\p{Lu}{2,5}")

_LONGEST = 100
"""The most words of a source term; more are no term, and would take long to look for."""

_MOST_ALIKE = 1_000
"""The most terms whose words begin alike, all of which are compared with each such text."""

_HEADER = ["source", "target"]

_CODE = regex.compile(r"[A-Za-z]{2,3}(?:[-_]\w+)*")
"""The code of a language."""


class Entry(NamedTuple):
    """One line of a glossary.

    Attributes:
        source: The source term.
        target: Its translation; equal to the source if the term stays as it is.
        forms: Other forms of the source term that count as it.
    """

    source: str
    target: str
    forms: tuple[str, ...] = ()


class Term(NamedTuple):
    """A term that was found in a text.

    Attributes:
        begin: The index of its first character.
        end: The index after its last character.
        target: The translation that it must have.
    """

    begin: int
    end: int
    target: str


class _Word(NamedTuple):
    """A word or a sign of a text."""

    text: str
    folded: str
    begin: int
    end: int
    is_apart: bool
    """True if white space stands before it."""


class _Phrase(NamedTuple):
    """A source term, or one of its forms."""

    words: list[_Word]
    target: str
    is_exact: bool


@dataclass
class _Node:
    """The phrases that end after some words, and the words that follow in longer ones.

    Words are told apart by their beginnings.
    """

    phrases: list[_Phrase] = field(default_factory=list)
    further: dict[str, "_Node"] = field(default_factory=dict)


class Glossary:
    """Terms and the translations that they must have.

    Args:
        entries: The entries.
        stem: The least letters that forms of one word have in common; 0 finds exact words only.
        exact: True writes each target as it is here. False lets a model that has learned to use
            terms write another form of it, as its sentence needs it, if it differs from the source.

    Raises:
        DataError: If a source or a target is empty, or a source has two targets.
    """

    def __init__(self, entries: Iterable[Entry], stem: int = STEM, *, exact: bool = False) -> None:
        self._stem, self.exact = stem, exact
        self._root = _Node()
        for entry in _checked((f"entry {row}", each) for row, each in enumerate(entries, 1)):
            for source in (entry.source, *entry.forms):
                is_exact = _ABBREVIATION.fullmatch(source) is not None
                self._add(_Phrase(_words(source), entry.target, is_exact))

    @classmethod
    def read(
        cls,
        path: Path,
        stem: int = STEM,
        source_language: str | None = None,
        target_language: str | None = None,
        *,
        exact: bool = False,
    ) -> "Glossary":
        """Read a glossary in TSV, CSV or TBX (ISO 30042).

        Args:
            path: The file. The end of its name says the format: `.csv`, `.tbx`, or else TSV.
            stem: The least letters that forms of one word have in common.
            source_language: The language of the sources, such as `en`, for TBX and for tables whose
                last two columns are languages. In TBX it may be left out if the file has only one
                language beside that of the targets.
            target_language: The language of the targets, likewise.
            exact: As for `Glossary`.

        Returns:
            The glossary.

        Raises:
            DataError: If the file cannot be read, an entry is wrong, or TBX lacks a language.
        """
        is_tbx = path.suffix.lower() == ".tbx"
        languages = source_language, target_language
        if is_tbx:
            entries = _term_base_entries(path, *languages)
        else:
            lines = read_lines(path)
            entries = table_entries(path, lines, is_quoted=is_csv(path), languages=languages)
        return cls(_checked(entries), stem, exact=exact)

    def terms(self, text: str) -> list[Term]:
        """Return the terms in a text.

        Of terms that overlap, the longest is taken, then the first. Of entries that fit the same
        words, the one with the most words in their own form and case is taken, then the first.

        Args:
            text: The text.

        Returns:
            The terms in their order, without overlaps.
        """
        words = _words(text)
        found = [each for begin in range(len(words)) for each in self._from(words, begin)]
        found.sort(key=lambda each: words[each[0]].begin - words[each[1] - 1].end)
        taken = bytearray(len(words))
        terms: list[Term] = []
        for begin, end, target in found:
            if not any(taken[begin:end]):
                taken[begin:end] = b"\1" * (end - begin)
                terms.append(Term(words[begin].begin, words[end - 1].end, target))
        return sorted(terms)

    def _add(self, phrase: _Phrase) -> None:
        node = self._root
        for number, word in enumerate(phrase.words):
            node = node.further.setdefault(self._beginning(word, number == 0), _Node())
        node.phrases.append(phrase)
        if len(node.phrases) > _MOST_ALIKE:
            words = " ".join(each.text for each in phrase.words)
            raise DataError(
                f"the glossary has more than {_MOST_ALIKE:,} terms that begin as {words!r} does; "
                "remove some, or find exact words only (stem 0)"
            )

    def _from(self, words: list[_Word], begin: int) -> Iterator[tuple[int, int, str]]:
        """Yield the terms that begin at a word: their first word, the word after them, the target.

        There is one at most for each number of words.
        """
        node = self._root
        for place in range(begin, len(words)):
            beginning = self._beginning(words[place], place == begin)
            if beginning not in node.further:
                return
            node = node.further[beginning]
            found = words[begin : place + 1] if node.phrases else []
            if fitting := [each for each in node.phrases if self._fits(each, found)]:
                yield begin, place + 1, max(fitting, key=lambda each: _likeness(each, found)).target

    def _beginning(self, word: _Word, is_first: bool) -> str:
        """Return the letters that all forms of a word share, after a space if one must be there.

        A word with a digit, such as the number of a part, has no other forms.
        """
        has_forms = self._stem and not any(map(str.isdigit, word.folded))
        letters = word.folded[: max(1, self._stem - 1)] if has_forms else word.folded
        return f" {letters}" if word.is_apart and not is_first else letters

    def _fits(self, phrase: _Phrase, found: list[_Word]) -> bool:
        return all(
            are_forms(one.text, other.text, self._stem)
            if phrase.is_exact
            else are_forms(one.folded, other.folded, self._stem)
            for one, other in zip(phrase.words, found, strict=True)
        )


def are_forms(one: str, other: str, stem: int = STEM) -> bool:
    """Return whether two words count as forms of one word."""
    if one == other or not stem:
        return one == other
    shorter, longer = sorted((len(one), len(other)))
    common = _common(one, other)
    return (
        common >= stem - (common == shorter)
        and longer - common <= ENDING
        and "-" not in one[common:] + other[common:]
    )


def _common(one: str, other: str) -> int:
    """Return the number of letters with which both words begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def has_term(text: str, term: str) -> bool:
    """Return whether a text has a term, or a form of it, alone or at the end of a compound.

    A word counts as a form if both begin with the same four letters (or with all of the term), and
    at most three letters are left of each: more than in `are_forms`, for the text is a translation
    of the term's sentence. Accents do not tell forms apart (`Haus`, `Häusern`). A term in a
    compound has four letters or more, all small.
    """
    text, term = (_without_accents(each) for each in (text, term))
    found, wanted = _words(text), _words(term)
    is_exact = _ABBREVIATION.fullmatch(term) is not None
    for begin in range(len(found) - len(wanted) + 1):
        pairs = zip(found[begin:], wanted, strict=False)
        if all(a.text == b.text if is_exact else _is_form(a.folded, b.folded) for a, b in pairs):
            return True
    ending = rf"\w{regex.escape(term.lower())}\w{{0,{ENDING}}}(?!\w)"
    return len(term) >= STEM - 1 and regex.search(ending, text) is not None


def _is_form(one: str, term: str) -> bool:
    """Return whether a word of a translation counts as a form of a word of a term."""
    if one == term or len(term) == 1 or any(map(str.isdigit, term)):
        return one == term
    common = _common(one, term)
    return (
        common >= min(STEM - 1, len(term))
        and max(len(one), len(term)) - common <= ENDING + 1
        and "-" not in one[common:] + term[common:]
    )


def _without_accents(text: str) -> str:
    return str(regex.sub(r"\p{M}", "", unicodedata.normalize("NFD", text)))


def _words(text: str) -> list[_Word]:
    words = []
    end = 0
    for match in _TOKEN.finditer(text):
        word = composed(match[0])
        folded = word.casefold().replace("’", "'")
        words.append(_Word(word, folded, match.start(), match.end(), match.start() > end))
        end = match.end()
    return words


def _likeness(phrase: _Phrase, found: list[_Word]) -> int:
    """Return how many words have the form of the term, and its case, if only at their beginning."""
    pairs = zip(phrase.words, found, strict=True)
    return sum(
        3 * (one.folded == other.folded) + (one.text == other.text) + (one.text[0] == other.text[0])
        for one, other in pairs
    )


def _checked(entries: Iterable[tuple[str, Entry]]) -> Iterator[Entry]:
    """Yield entries, each of which comes with its place for messages."""
    known: dict[tuple[tuple[str, bool], ...], tuple[str, str]] = {}
    for place, entry in entries:
        entry = entry._replace(target=" ".join(entry.target.split()))
        if not entry.target:
            raise DataError(
                f"{place}: the target of {entry.source!r} is empty; write one, or repeat the "
                "source to keep it"
            )
        for source in (entry.source, *entry.forms):
            words = tuple((each.text, each.is_apart) for each in _words(source.strip()))
            if not words:
                raise DataError(f"{place}: the source is empty; write a term, or remove the entry")
            for side, count in (("source", len(words)), ("target", len(_words(entry.target)))):
                if count > _LONGEST:
                    raise DataError(
                        f"{place}: the {side} has {count:,} words, expected {_LONGEST} at most; a "
                        "glossary has terms, not sentences"
                    )
            before, target = known.setdefault(words, (place, entry.target))
            if target != entry.target:
                raise DataError(
                    f"{place}: {source.strip()!r} has the target {entry.target!r}, and {target!r} "
                    f"in {before}; keep one of them"
                )
        yield entry


def _term_base_entries(
    path: Path, source: str | None, target: str | None
) -> Iterator[tuple[str, Entry]]:
    for place, (first, *forms), translation in tbx_entries(path, source, target):
        yield place, Entry(first, translation, tuple(forms))


def table_entries(
    path: Path, lines: Sequence[str], *, is_quoted: bool,
    languages: tuple[str | None, str | None] = (None, None),
) -> Iterator[tuple[str, Entry]]:  # fmt: skip
    """Yield the entries of a table, each with its place. In CSV, cells may be quoted.

    A row of four columns has languages in the last ones. It counts if `languages` are the same, as
    far as they are known.
    """
    form = csv_form(lambda: iter(lines)) if is_quoted else Form()
    for row, (number, cells) in enumerate(form.rows(path, iter(lines))):
        place, cells = f"{path}:{number}", [each.strip() for each in cells]
        if not any(cells) or (row == 0 and [each.lower() for each in cells[:2]] == _HEADER):
            continue
        named = len(cells) == 4 and all(map(_CODE.fullmatch, cells[2:]))
        if len(cells) > 3 and not named:
            raise DataError(
                f"{place}: {len(cells)} columns, expected source, target and forms, or source, "
                "target and their languages; quote cells that contain the delimiter"
            )
        pairs = zip(languages, cells[2:], strict=False)
        if named and not all(wanted is None or means(wanted, code) for wanted, code in pairs):
            continue
        forms = cells[2].split("|") if len(cells) == 3 and cells[2] else []
        target = cells[min(1, len(cells) - 1)]
        yield place, Entry(cells[0], target, tuple(each.strip() for each in forms))
