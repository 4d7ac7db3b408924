"""Characters that a wrong encoding or a faulty conversion has damaged, added or lost."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain, pairwise

from crosshead.data.checks.suspects import Suspect
from crosshead.data.text.scripts import UNSPACED, letters_by_script, script
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

_BROKEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd\ufffe\uffff]")
"""Control characters, and the character that replaces undecodable bytes."""

_INVISIBLE = re.compile(r"[\u00ad\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
"""A soft hyphen, zero-width space, word joiner, byte order mark, or a mark that sets the direction
of text. The zero-width joiner and non-joiner are left out, because Persian and Indic scripts need
them."""

_LINE_BREAKS = "\u200b\u2060"
"""The invisible characters that allow or forbid a new line between words. Khmer, Thai and other
scripts without spaces need them."""

_DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""The invisible characters that set the direction of text. Arabic and Hebrew text needs them."""

_LEAST_UNSPACED, _SEVERAL = 30, 5
"""The smallest number of letters of a line without spaces, and of words of the opposite line, if
spaces are lost. A compound of many words may have as many."""

_SENTENCE_END = re.compile(r"[.!?…।؟۔]\W*$")
_LEAST_CAPITALS = 2
"""The smallest number of capitals between small letters in a line of several words. One may be
meant, as in ArbeitnehmerInnenschutzgesetz."""

_NO_BREAK = re.compile(r"\b[^\W\d_]{2,}(?:[\u00a0\u202f][^\W\d_]{2,})+\b")
"""Letters with no-break spaces between them. Elsewhere many languages need these: beside numbers,
marks, dashes and quotes, and behind words of one letter."""

_LOST = re.compile(r"[^\W\d_]{1,20}\?+[^\W\d_]{1,20}")
"""Question marks between letters, as in M?nchen."""

_ESCAPED = re.compile(
    r"(?P<before>[^\W\d_]*)"
    r"(?P<codes>(?:\\x[0-9A-Fa-f]{2})+|(?:\\u[0-9A-Fa-f]{4})+|(?:[=%][89A-F][0-9A-F])+)"
    r"(?P<after>[^\W\d_]*)"
)
"""A word with escaped characters: M\\xe4nner, M\\u00e4nner, M=C3=A4nner or M%C3%A4nner."""

URL = re.compile(r"\b\w+://\S+|\bwww\.\S+")
"""A URL, also without its scheme."""

_ADDRESS = re.compile(rf"{URL.pattern}|\b[A-Za-z]:\\\S*|\\\\\S+|\S*[/?&]\S*%\S*")
"""A URL, also an escaped one without its scheme, or a path of Windows."""


def damaged(lines: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines with characters that a wrong encoding has damaged.

    The score is 1 for characters that never stand in text, and 0.5 for question marks between
    letters.

    Args:
        lines: All lines of the side.
        side: The name of the side, for the reason.
    """
    letters = Counter(character for line in lines if not line.isascii() for character in set(line))
    in_words = _divided_words(lines) | _mistaken_words(lines, letters)
    suspects = []
    for row, line in enumerate(lines):
        found, score = _damage(line, letters)
        if not found and row in in_words:
            found, score = in_words[row], 1.0
        if found:
            reason = f"the {side} has {found}"
            suspects.append(Suspect(row, "encoding", score, reason))
    return suspects


def without_spaces(lines: Sequence[str], others: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines that have lost all spaces between their words. The score is 1.

    Such a line ends like a sentence, or has two capitals between small letters. Without these signs
    a long line may be one word, such as Kraftfahrzeughaftpflichtversicherung, or a chain of words.

    Measured with 2,000 captions of Multi30k: where 40 had lost their spaces, 30 to 40 of these were
    found, and no other line (English, German, French and Czech, five samples each). Most of the
    missed lines have fewer than 30 letters. Lines without a full stop are missed in languages that
    write nouns with small letters.

    Args:
        lines: All lines of the side.
        others: All lines of the opposite side.
        side: The name of the side, for the reason.
    """
    suspects = []
    for row, line in enumerate(lines):
        if len(line) < _LEAST_UNSPACED or len(line.split(maxsplit=1)) != 1:
            continue
        letters = letters_by_script([URL.sub("", line)])
        if letters.total() < _LEAST_UNSPACED or not UNSPACED.isdisjoint(letters):
            continue
        words = len(others[row].split())
        if words >= _SEVERAL and _has_several_words(line):
            reason = f"the {side} has no spaces, but there are {words:,} words opposite"
            suspects.append(Suspect(row, "encoding", 1.0, reason))
    return suspects


def _has_several_words(line: str) -> bool:
    """Return whether a line without spaces is a sentence, or has capitals between small letters."""
    capitals = sum(
        before.islower() and letter.isupper() and after.islower()
        for before, letter, after in zip(line, line[1:], line[2:], strict=False)
    )
    return capitals >= _LEAST_CAPITALS or bool(_SENTENCE_END.search(line))


def _divided_words(lines: Sequence[str]) -> dict[int, str]:
    """Return descriptions by row, for lines with a no-break space inside a word.

    The space is inside a word, and not between two words, if the word stands in other lines without
    it, and the two parts do not both stand there as words.
    """
    found = {
        row: spots
        for row, line in enumerate(lines)
        if not line.isascii() and (spots := _NO_BREAK.findall(line))
    }
    if not found:
        return {}
    words = {
        word
        for row, line in enumerate(lines)
        for word in split_words(_NO_BREAK.sub("", line) if row in found else line)
    }
    divided: dict[int, str] = {}
    for row, spots in found.items():
        for left, right in chain.from_iterable(pairwise(spot.split()) for spot in spots):
            if (left + right).lower() in words and not {left.lower(), right.lower()} <= words:
                divided.setdefault(row, f"a no-break space inside {left + right!r}")
    return divided


def _mistaken_words(lines: Sequence[str], letters: Counter[str]) -> dict[int, str]:
    """Return descriptions by row, for lines with wrong letters, such as M‰nner.

    A word is damaged if other lines have the word with the right letters, or if the same wrong
    letters were found so in most lines that may have them. Only a letter that stands in fewer lines
    than the right one can be wrong.
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


def _damage(line: str, letters: Counter[str]) -> tuple[str, float]:
    """Return a description of the damage in a line, or "", and the score."""
    ascii_only = line.isascii()
    if not (ascii_only and line.isprintable()):
        if broken := _BROKEN.search(line):
            return f"the character U+{ord(broken[0]):04X}", 1.0
        if hidden := _invisible(line):
            return f"the invisible character U+{ord(hidden[0]):04X}", 1.0
    if ("\\" in line or "=" in line or "%" in line) and (found := _escaped(line, letters)):
        return found, 1.0
    if "?" in line and (found := _lost(line)):
        return found, 0.5
    return (
        ("", 0.0) if ascii_only else (_misread(line, letters) or _all_misread(line, letters), 1.0)
    )


def _invisible(line: str) -> list[str]:
    """Return the invisible characters that do not belong into a line."""
    found = _INVISIBLE.findall(line)
    if found and not UNSPACED.isdisjoint(letters_by_script([line])):
        found = [each for each in found if each not in _LINE_BREAKS]
    if found and any(unicodedata.bidirectional(each) in {"R", "AL"} for each in line):
        found = [each for each in found if each not in _DIRECTIONS]
    return found


def _lost(line: str) -> str:
    """Return a description of the first question marks that stand for lost letters, or ""."""
    for lost in _LOST.findall(URL.sub(" ", line)):
        before, after = lost.split("?")[0][-1], lost.split("?")[-1][0]
        # Two sentences may meet, as in "What?No" and always in scripts without spaces.
        sentences = before.islower() and after.isupper()
        if not (sentences or {script(before), script(after)} & UNSPACED):
            return (
                f"{lost!r}, probably {'a lost letter' if lost.count('?') == 1 else 'lost letters'}"
            )
    return ""


def _escaped(line: str, letters: Counter[str]) -> str:
    """Return a description of the first escaped letter of a line, or "".

    An escape inside a word is damage if other lines of the side contain its letter, or if the line
    has several escapes.
    """
    found = []
    for spot in _ESCAPED.finditer(_ADDRESS.sub(" ", line)):
        before, codes, after = spot["before"], spot["codes"], spot["after"]
        meant = _unescaped(codes)
        # A single code, as in x=C3, is damage only between letters: M=E4nner.
        short = codes[0] in "=%" and len(codes) == 3
        beside = before and after[:1].islower() if short else after or len(before) > 1
        if beside and len(meant) > 0 and meant[0].isalpha():
            found.append((before + codes + after, meant))
    for word, meant in found:
        if letters[meant[0]] or len(found) > 1:
            return f"{word!r}, probably with an escaped {meant!r}"
    return ""


def _unescaped(codes: str) -> str:
    """Return the characters that are not ASCII of escapes such as =C3=A4, or ""."""
    numbers = [int(code, 16) for code in re.split(r"\\[xu]|[=%]", codes)[1:]]
    if min(numbers) < 0x80:
        return ""
    if codes[1] == "u":
        return "".join(map(chr, numbers))
    try:
        return bytes(numbers).decode("utf-8")
    except UnicodeDecodeError:
        return bytes(numbers).decode("latin-1")


def _misread(line: str, letters: Counter[str]) -> str:
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
