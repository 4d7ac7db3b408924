"""Split a paragraph into parts that can be translated separately."""

import re
from collections.abc import Callable

_CLOSERS = "\"'”’»›)]}」』】）］"
_CLOSER = f"[{re.escape(_CLOSERS)}]"
_SENTENCE_END = re.compile(
    # Ideographic full stops need no space after them. Other marks do, so that 3.14 stays whole. A
    # run of marks is matched from its first mark only: a megabyte of dots is no slower than words.
    rf"[。！？｡]+{_CLOSER}*\s*"
    rf"|(?<![.!?…؟।۔])[.!?…؟।۔]++{_CLOSER}*+(?:\s+|$)"
)
_CLAUSE_END = re.compile(rf"[,;:，；：、،؛–—]{_CLOSER}*(?:\s+|(?<=[，；：、])|$)")
_SPACE = re.compile(r"\s+")
_STRETCH = re.compile(r"[^\s。！？｡，；：、]*+[。！？｡，；：、]*+")
_SPACED = re.compile(rf"[.!?,;:…]{_CLOSER}*\Z")
_LINE_BREAKS = re.compile(r"[\r\n]+")
_LAST_WORD = re.compile(r"[\w.]*\w\.\Z")
_LONGEST_SENTENCE = 2_000

# Abbreviations of several languages that rarely end a sentence, in lower case.
_ABBREVIATIONS = frozenset((
    "approx", "bzw", "ca", "cf", "d.h", "dept", "dr", "e.g", "fig", "gen", "hr",
    "i.e", "jr", "lt", "mlle", "mme", "mr", "mrs", "ms", "nr", "p", "p.ex",
    "pp", "prof", "rev", "sgt", "sig", "sr", "sra", "st", "str", "u.a", "vgl", "vol",
    "vs", "z.b",
))  # fmt: skip


def split_sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences. Joined, the sentences are the paragraph.

    A sentence ends after `.`, `!`, `?`, `…` (with closing quotes and brackets) and white space, or
    after `。`, `！`, `？`. The white space belongs to the sentence before it. A full stop after a
    common abbreviation, an initial (`J. S. Bach`) or an ordinal number (`3. Mai`) does not end a
    sentence. No mark ends a sentence before a lower-case letter.
    """
    cuts = [
        match.end()
        for match in _SENTENCE_END.finditer(paragraph)
        if not _goes_on(paragraph, match.start(), match.end())
    ]
    return _cut(paragraph, cuts)


def split_long(text: str, length: Callable[[str], int], limit: int) -> list[str]:
    """Split `text` into sentences, and longer sentences further. Joined, the parts are the text.

    A sentence longer than `limit` is cut at clauses, clauses are cut at white space, and longer
    words in the middle. Neighbouring pieces of one sentence stay together while the sum of their
    lengths fits the limit. A single character is never cut. The time grows in proportion to the
    text.
    """
    parts: list[str] = []
    for sentence in split_sentences(text):
        parts += _cut_down(sentence, length, limit, (_clauses, _words, _halves))
    return parts


def cut_sentence(sentence: str) -> list[str]:
    """Cut a sentence of more than 2,000 characters at clauses, and longer clauses at white space.

    No model reads so long a sentence whole, and tokenizing one takes the longer the longer it is.
    Joined, the parts are the sentence.
    """
    return _cut_down(sentence, len, _LONGEST_SENTENCE, (_clauses, _words))


def longest_stretch(text: str) -> int:
    """Return the number of characters of the longest word of `text`.

    `split_long` could cut such a word only in the middle.
    """
    return max(match.end() - match.start() for match in _STRETCH.finditer(text))


def join_parts(parts: list[str], translations: list[str]) -> str:
    """Join the translations of parts to one line, with the white space between the parts.

    Some scripts put no space between sentences. Where two parts met without white space, a space
    follows a translation that ends in `.`, `!`, `?` or the like.
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
    """Return the text with inner line breaks as spaces, and without line breaks at its ends."""
    return _LINE_BREAKS.sub(" ", text.strip("\r\n"))


def _cut_down(
    text: str,
    length: Callable[[str], int],
    limit: int,
    ways: tuple[Callable[[str], list[str]], ...],
) -> list[str]:
    core = text.strip()
    if len(core) <= 1 or length(core) <= limit or not ways:
        return [text]
    parts: list[str] = []
    size = 0
    # Halving is repeated until everything fits.
    further = ways if ways[0] is _halves else ways[1:]
    for part in ways[0](text):
        for piece in _cut_down(part, length, limit, further):
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
    # Surrounding white space does not count, so that neither half is blank.
    lead = len(text) - len(text.lstrip())
    return _cut(text, [lead + len(text.strip()) // 2])


def _cut(text: str, ends: list[int]) -> list[str]:
    """Return the parts of `text` that end at `ends`, and the rest. No part is white space alone."""
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
    """Return whether the sentence continues after the mark at `start` and white space to `end`."""
    following = text[end : end + 1]
    if following.islower():
        return True
    if text[start:end].rstrip() != ".":
        return False
    # The search is bounded: without spaces, each mark would search the whole paragraph.
    word = _LAST_WORD.search(text, max(0, start - 20), start + 1)
    if word is None:
        return False
    stem = word.group()[:-1].lower()
    initial = len(stem) == 1 and stem.isalpha()
    # A number of three digits or more is a quantity or a year, which may end a sentence.
    ordinal = stem.isdigit() and len(stem) <= 2 and following != ""
    return initial or ordinal or stem in _ABBREVIATIONS
