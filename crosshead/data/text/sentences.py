"""Cuts of a paragraph into parts that can be translated separately."""

import re
from collections.abc import Callable

_CLOSERS = "\"'”’»›)]}」』】）］"
_CLOSER = f"[{re.escape(_CLOSERS)}]"
_SENTENCE_END = re.compile(
    # Ideographic full stops need no space after them; the others do, which leaves 3.14 whole. A
    # run of marks is tried from its beginning only: a megabyte of dots takes no longer than words.
    rf"[。！？｡]+{_CLOSER}*\s*"
    rf"|(?<![.!?…؟।۔])[.!?…؟।۔]++{_CLOSER}*+(?:\s+|$)"
)
_CLAUSE_END = re.compile(rf"[,;:，；：、،؛–—]{_CLOSER}*(?:\s+|(?<=[，；：、])|$)")
_SPACE = re.compile(r"\s+")
_SPACED = re.compile(rf"[.!?,;:…]{_CLOSER}*\Z")
_LINE_BREAKS = re.compile(r"[\r\n]+")
_LAST_WORD = re.compile(r"[\w.]*\w\.\Z")

# Rarely the last word of a sentence, in several languages; in small letters.
_ABBREVIATIONS = frozenset((
    "approx", "bzw", "ca", "cf", "d.h", "dept", "dr", "e.g", "fig", "gen", "hr",
    "i.e", "jr", "lt", "mlle", "mme", "mr", "mrs", "ms", "nr", "p", "p.ex",
    "pp", "prof", "rev", "sgt", "sig", "sr", "sra", "st", "str", "u.a", "vgl", "vol",
    "vs", "z.b",
))  # fmt: skip


def split_sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph; joined without anything between they are the paragraph.

    A sentence ends after `.`, `!`, `?`, `…` (with closing quotes and brackets) and white space, or
    after `。`, `！`, `？`; white space stays with the sentence before it. A full stop after a
    common abbreviation, an initial (`J. S. Bach`) or an ordinal number (`3. Mai`) ends none, and
    neither does any mark before a small letter.
    """
    cuts = [
        match.end()
        for match in _SENTENCE_END.finditer(paragraph)
        if not _goes_on(paragraph, match.start(), match.end())
    ]
    return _cut(paragraph, cuts)


def split_long(text: str, length: Callable[[str], int], limit: int) -> list[str]:
    """The sentences of `text`, those over the limit cut further; joined they are the text.

    `length` measures a text (in tokens); white space at the ends of a part does not count. A
    sentence that is longer than `limit` is cut at the marks of its clauses, a clause at white
    space, and what is left in the middle; neighbouring pieces of one sentence stay together as far
    as their lengths add up to the limit. A single character is never cut. The time taken grows in
    proportion to the text.
    """
    parts: list[str] = []
    for sentence in split_sentences(text):
        parts += _cut_down(sentence, length, limit, (_clauses, _words, _halves))
    return parts


def longest_stretch(text: str) -> int:
    """Characters of the longest part of `text` that `split_long` could only cut anywhere."""
    sentences = split_sentences(text)
    clauses = [clause for sentence in sentences for clause in _clauses(sentence)]
    words = [word.strip() for clause in clauses for word in _words(clause)]
    return max(map(len, words), default=0)


def join_parts(parts: list[str], translations: list[str]) -> str:
    """One line of the parts' translations, set apart by the white space that set the parts apart.

    A script that puts no space between sentences may become one that does: where the parts met
    without white space, a space is put behind a translation that ends in `.`, `!`, `?` or the like.
    """
    line = ""
    last = len(parts) - 1
    for index, (part, translation) in enumerate(zip(parts, translations, strict=True)):
        core = part.strip()
        before, after = part.split(core, 1) if core else (part, "")
        line += before + translation + after
        if index < last and not after and _SPACED.search(translation):
            line += " "
    return one_line(line)


def one_line(text: str) -> str:
    """Return the text without line feeds and carriage returns: a space for those inside it."""
    return _LINE_BREAKS.sub(" ", text.strip("\r\n"))


def _cut_down(
    text: str,
    length: Callable[[str], int],
    limit: int,
    ways: tuple[Callable[[str], list[str]], ...],
) -> list[str]:
    core = text.strip()
    if len(core) <= 1 or length(core) <= limit:
        return [text]
    parts: list[str] = []
    size = 0
    for part in ways[0](text):
        # The last way, halving, is repeated until everything fits.
        for piece in _cut_down(part, length, limit, ways[1:] or ways):
            added = length(piece)
            if parts and size + added <= limit:
                parts[-1] += piece
                size += added
            else:
                parts.append(piece)
                size = added
    return parts


def _clauses(text: str) -> list[str]:
    return _cut(text, [match.end() for match in _CLAUSE_END.finditer(text)])


def _words(text: str) -> list[str]:
    return _cut(text, [match.end() for match in _SPACE.finditer(text)])


def _halves(text: str) -> list[str]:
    # Inside the white space around it, so that neither half is blank.
    lead = len(text) - len(text.lstrip())
    return _cut(text, [lead + len(text.strip()) // 2])


def _cut(text: str, ends: list[int]) -> list[str]:
    """The parts of `text` that end at `ends`, and what follows; white space alone is no part."""
    parts: list[str] = []
    start = 0
    for end in ends:
        if text[start:end].strip():
            parts.append(text[start:end])
            start = end
    rest = text[start:]
    if rest.strip() or not parts:
        return [*parts, rest] if rest else parts
    parts[-1] += rest
    return parts


def _goes_on(text: str, start: int, end: int) -> bool:
    """Return whether the mark at `start`, followed by white space up to `end`, ends no sentence."""
    following = text[end : end + 1]
    if following.islower():
        return True
    if text[start:end].rstrip() != ".":
        return False
    # Bounded, so that a paragraph without spaces is not read again for each of its marks.
    word = _LAST_WORD.search(text, max(0, start - 20), start + 1)
    if word is None:
        return False
    stem = word.group()[:-1].lower()
    initial = len(stem) == 1 and stem.isalpha()
    # Of three digits or more it is a quantity or a year, which may well end a sentence.
    ordinal = stem.isdigit() and len(stem) <= 2 and following != ""
    return initial or ordinal or stem in _ABBREVIATIONS
