"""Characters that a wrong encoding or a faulty conversion has damaged, added or lost."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise

from crosshead.data.checks.misread import misread, mistaken_words
from crosshead.data.checks.suspects import Suspect
from crosshead.data.text.scripts import UNSPACED, letters_by_script, script
from crosshead.data.text.words import split_words

_BROKEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffd\ufffe\uffff]")
"""Control characters, separators of lines, and the character that replaces undecodable bytes."""

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

_QUERY = re.compile(
    r"[./][^?]{0,200}\?[\w-]+=|\.[a-z]{2,5}\?|\w\.[a-z]+/[^?]{0,200}\?"
    r"|\?(?:[qv]|id|lang|next|page|query|search|[\w-]+=[^?]{0,200}&[\w-]+)="
)
"""The query of an address without a scheme, as in /list?page=two, index.php?print, x.de/list?all,
search?q=cats or list?a=1&b=2. A point before small letters ends no sentence, so .php? is a part of
an address."""


def damaged(lines: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines with characters that a wrong encoding has damaged.

    The score is 1 for characters that never stand in text, and 0.5 for question marks between
    letters.

    Args:
        lines: All lines of the side.
        side: The name of the side, for the reason.
    """
    letters = Counter(character for line in lines if not line.isascii() for character in set(line))
    in_words = _divided_words(lines) | mistaken_words(lines, letters)
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
    return ("", 0.0) if ascii_only else (misread(line, letters), 1.0)


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
    words = URL.sub(" ", line).split()
    text = " ".join(word for word in words if "?" not in word or not _QUERY.search(word))
    for lost in _LOST.findall(text):
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
