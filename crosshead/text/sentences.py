"""Split a paragraph into parts that can be translated separately.

sentencex (MIT, in Rust) finds the ends of sentences by the abbreviations of about 300 languages.
"""

import re
from collections.abc import Callable, Iterator

import sentencex

_CLOSER = "[" + re.escape("\"'”’»›)]}」』】）］") + "]"
_CLOSERS = re.compile(rf"{_CLOSER}*\s*")
_NO_END = re.compile(r"[\w\x21-\x7e…]\Z|(?<![\w.])(?:[^\W\d_]|\d\d?)\.\s+\Z")
"""No end of a sentence: a place in a word or an address, an initial (`M. Dupont`), and an ordinal
number (`das 19. Jahrhundert`)."""
_NO_TEXT = re.compile(r"\s|[\ud800-\udfff]")
_CLAUSE_END = re.compile(rf"[.!?…,;:，；：、،؛–—]{_CLOSER}*(?:\s+|(?<=[，；：、])|$)")
_SPACE = re.compile(r"\s+")
_STRETCH = re.compile(r"[^\s。！？｡，；：、]*+[。！？｡，；：、]*+")
_SPACED = re.compile(rf"[.!?,;:…]{_CLOSER}*\Z")
_LINE_BREAKS = re.compile(r"[\r\n]+")
_BLOCK = re.compile(r".{1,2000}\S{0,2000}\s*+")


def split_sentences(paragraph: str, language: str | None = None) -> list[str]:
    """Split a paragraph into sentences by the rules of a language, by default English.

    Joined, the sentences are the paragraph. The white space behind a sentence belongs to it. A
    quotation or a text in brackets stays whole. No sentence has many more than 2,000 characters,
    because no model reads so much at once.
    """
    ends, end = list[int](), 0
    for piece in _pieces(paragraph, language or "en"):
        end += len(piece)
        # Without a space between, a closing mark belongs to the sentence.
        closers = None if piece[-1].isspace() else _CLOSERS.match(paragraph, end)
        at = closers.end() if closers else end
        if not _NO_END.search(paragraph, max(0, at - 20), at):
            ends.append(at)
    return _cut(paragraph, ends)


def _pieces(text: str, language: str) -> Iterator[str]:
    """Yield the sentences that sentencex finds.

    It takes quadratic time for some texts, so a long text is read a block at a time. It crashes at
    some white space, so all white space is written as spaces.
    """
    text, begin = _NO_TEXT.sub(" ", text), 0
    while block := _BLOCK.match(text, begin):
        found = list(sentencex.segment(language, block[0]))
        if block.end() < len(text) and len(found) > 1:
            found.pop()  # it may go on in the next block
        yield from found
        begin += sum(map(len, found))


def split_long(
    text: str, length: Callable[[str], int], limit: int, language: str | None = None
) -> list[str]:
    """Split `text` into sentences, and longer sentences further. Joined, the parts are the text.

    A sentence longer than `limit` is cut at clauses, clauses are cut at white space, and longer
    words in the middle. Neighbouring pieces of one sentence stay together while the sum of their
    lengths fits the limit. A single character is never cut. The time grows in proportion to the
    text.
    """
    parts: list[str] = []
    for sentence in split_sentences(text, language):
        parts += _cut_down(sentence, length, limit, (_clauses, _words, _halves))
    return parts


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
