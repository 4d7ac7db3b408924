"""Text that was decoded with a wrong encoding: UTF-8, or an encoding of one byte a character."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence

from crosshead.data.text.words import split_words

_UPPER_HALF = range(0x80, 0x100)
_MATHS = "πΩµ∞"
"""Characters that may follow a root or "about" sign: √π."""


def _codes(*encodings: str) -> dict[str, int]:
    """Return the byte of each character that is not ASCII; the first encoding with it counts."""
    return {
        character: byte
        for encoding in reversed(encodings)
        for byte in _UPPER_HALF
        for character in bytes([byte]).decode(encoding, "ignore")
    }


_WRONG = [
    _codes("cp1252", "latin-1"),
    *(
        {
            character: byte
            for character, byte in _codes(encoding).items()
            # Two letters or quotes beside each other may be meant. Symbols inside words are not.
            if not 0xC6 <= byte < 0xE0 or unicodedata.category(character)[0] == "S"
        }
        for encoding in ("cp437", "cp850", "mac_roman")
    ),
]
"""The encodings that UTF-8 is often read in, as the byte of each character."""


def _characters(low: int, high: int) -> str:
    """Return the characters of the bytes from `low` up to `high`, for a regular expression."""
    found = {each for codes in _WRONG for each, byte in codes.items() if low <= byte < high}
    return re.escape("".join(sorted(found)))


_MISREAD = re.compile(f"[{_characters(0xC2, 0xF5)}](?=[{_characters(0x80, 0xC0)}])")
"""The first character of UTF-8 read in a wrong encoding, such as Ã¼ or ├╝ for ü."""

_LETTERED = ("cp1250", "cp1251", "iso8859_2")
"""Encodings that UTF-8 is read in, too, and in which most bytes are letters."""

_MANY_MEANT = 3
"""The number of characters from which they need not be known from other lines."""

_MISTAKEN = [
    ("latin-1", "cp1251"),
    ("latin-1", "mac_roman"),
    ("latin-1", "cp437"),
    ("latin-1", "cp850"),
    ("cp1250", "cp1252"),
]
"""Encodings with one byte for a character, each with a wrong one that it is often read in."""

_LEAST_MISTAKEN = 3
"""The smallest number of letters of a word that is compared to words of other lines."""

_LEAST_SURE = 2
"""The smallest number of lines that show that a letter is wrong in other words, too."""


def misread(line: str, letters: Counter[str]) -> str:
    """Return a description of UTF-8 in a line that was read in a wrong encoding, or "".

    Args:
        line: A line of the side.
        letters: The number of lines with each character, of the lines that are not ASCII.

    Returns:
        The first wrong characters, and the right ones.
    """
    return _some_misread(line, letters) or _all_misread(line, letters)


def mistaken_words(lines: Sequence[str], letters: Counter[str]) -> dict[int, str]:
    """Return descriptions by row, for lines with wrong letters, such as M‰nner.

    A word is damaged if other lines have the word with the right letters, or if the same wrong
    letters were found so in most lines that may have them. Only a letter that stands in fewer lines
    than the right one can be wrong.

    Args:
        lines: All lines of the side.
        letters: The number of lines with each character, of the lines that are not ASCII.

    Returns:
        A description of the first wrong word by row.
    """
    tables = [table for pair in _MISTAKEN if (table := _mistaken_letters(*pair, letters))]
    wrong = re.escape("".join(sorted({chr(code) for table in tables for code in table})))
    if not wrong:
        return {}
    seen, word_of = re.compile(f"[{wrong}]"), re.compile(rf"(?:[^\W\d_]|[{wrong}])+")
    found = [
        (row, word, right)
        for row, line in enumerate(lines)
        if not line.isascii() and seen.search(line)
        for word in word_of.findall(line)
        for table in tables
        if _is_plausible(word, right := word.translate(table))
    ]
    if not found:
        return {}
    wanted = {right.lower() for _, _, right in found}
    known = {word for line in lines for word in split_words(line) if word in wanted}
    usual = _usual_mistakes(found, known)
    damage: dict[int, str] = {}
    for row, word, right in found:
        if right.lower() in known or not usual.isdisjoint(_changes(word, right)):
            damage.setdefault(row, f"{word!r}, probably {right!r} in a wrong encoding")
    return damage


def _usual_mistakes(
    found: Sequence[tuple[int, str, str]], known: Collection[str]
) -> set[tuple[str, str]]:
    """Return the pairs of a wrong and a right letter that are known mistakes in most lines."""
    rows: dict[tuple[str, str], set[int]] = {}
    sure: dict[tuple[str, str], set[int]] = {}
    for row, word, right in found:
        for change in _changes(word, right):
            rows.setdefault(change, set()).add(row)
            if right.lower() in known:
                sure.setdefault(change, set()).add(row)
    return {
        change
        for change, those in sure.items()
        if len(those) >= _LEAST_SURE and 2 * len(those) >= len(rows[change])
    }


def _changes(word: str, right: str) -> set[tuple[str, str]]:
    """Return the letters of a word that differ, each with the right letter."""
    return {pair for pair in zip(word, right, strict=True) if pair[0] != pair[1]}


def _mistaken_letters(right: str, wrong: str, letters: Counter[str]) -> dict[int, str]:
    """Return the right letter for each character that may be one read in a wrong encoding."""
    table = {}
    for byte in _UPPER_HALF:
        meant, read = (bytes([byte]).decode(name, "ignore") for name in (right, wrong))
        if read != meant and meant.isalpha() and 0 < letters[read] < letters[meant]:
            table[ord(read)] = meant
    return table


def _is_plausible(word: str, right: str) -> bool:
    """Return whether a word may have wrong letters, and not capitals or quotes around it."""
    if word == right or len(word) < _LEAST_MISTAKEN:
        return False
    kept = "".join(one for one, other in zip(word, right, strict=True) if one == other)
    capital = kept.isupper() or (word[0].isupper() and right[0].islower())
    quoted = any(unicodedata.category(edge)[0] == "P" for edge in (word[0], word[-1]))
    return bool(kept) and not capital and not quoted


def _some_misread(line: str, letters: Counter[str]) -> str:
    """Return a description of the first letter of UTF-8 read in a wrong encoding, or ""."""
    for spot in _MISREAD.finditer(line):
        start = spot.start()
        meanings = [
            (line[start : start + len(meant.encode())], meant)
            for codes in _WRONG
            if (meant := _as_utf8(line[start : start + 4], codes))
        ]
        # A sequence such as É» may be meant. It is damage if the line has the same again, or if
        # other lines of the side contain the letter that it stands for.
        meanings.sort(key=lambda meaning: not letters[meaning[1]])
        for found, meant in meanings:
            again = found[0] != "ƒ" and line.count(found[0]) > 1  # Ewe has ƒ in many words.
            if (letters[meant] or again) and not _is_symbols(line, start, found):
                return f"{found!r}, probably {meant!r} in a wrong encoding"
    return ""


def _all_misread(line: str, letters: Counter[str]) -> str:
    """Return a description of a line that is UTF-8 read in an encoding of letters, or "".

    In these encodings, two letters may stand beside each other in clean text and look like one of
    UTF-8. So the whole line has to be valid UTF-8. In three million lines of programs' texts in 264
    languages, only damaged ones were.
    """
    for name in _LETTERED:
        try:
            right = line.encode(name).decode("utf-8")
        except UnicodeError:
            continue
        meant = [each for each in right if not each.isascii()]
        if meant and (len(meant) >= _MANY_MEANT or all(letters[each] for each in meant)):
            return f"{line[:20]!r}, probably {right[:20]!r} in a wrong encoding"
    return ""


def _is_symbols(line: str, start: int, found: str) -> bool:
    """Return whether a sequence may be symbols, as in ≈£5, √π or a drawn box, and no letter."""
    if found[0] != "ƒ" and found[0].isalpha():
        return False
    before, after = line[max(0, start - 2) : start], line[start + len(found) :][:1]
    if found[1] in _MATHS:
        return not (len(before) > 1 and before.isalpha())
    return not any(map(str.isalpha, before[-1:] + found[1:] + after))


def _as_utf8(text: str, codes: dict[str, int]) -> str:
    """Return the first character of a text, if it is UTF-8 read in an encoding, or ""."""
    raw = bytearray()
    for character in text:
        if character not in codes:
            break
        raw.append(codes[character])
    length = 2 + sum(raw[:1] >= lead for lead in (b"\xe0", b"\xf0"))
    try:
        return raw[:length].decode("utf-8") if len(raw) > 1 else ""
    except UnicodeDecodeError:
        return ""
