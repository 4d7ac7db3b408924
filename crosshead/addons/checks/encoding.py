"""Characters that a wrong encoding or a faulty conversion has damaged or added."""

import re
import unicodedata
from collections.abc import Sequence

from ftfy import fix_encoding

from crosshead.addons.checks.suspects import Suspect
from crosshead.text.scripts import UNSPACED, letters_by_script

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

_SHOWN = 20
"""The largest number of characters of a line in a description."""

URL = re.compile(r"\b\w+://\S+|\bwww\.\S+")
"""A URL, also without its scheme."""


def damaged(lines: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines with characters that a wrong encoding has damaged. The score is 1."""
    return [
        Suspect(row, "encoding", 1.0, f"the {side} has {found}")
        for row, line in enumerate(lines)
        if (found := _damage(line))
    ]


def _damage(line: str) -> str:
    """Return a description of the damage in a line, or ""."""
    if broken := _BROKEN.search(line):
        return f"the character U+{ord(broken[0]):04X}"
    if line.isascii():
        return ""
    if hidden := _invisible(line):
        return f"the invisible character U+{ord(hidden[0]):04X}"
    right = fix_encoding(line)
    if right == line:
        return ""
    start = next((at for at, one in enumerate(right) if one != line[at]), 0)
    shown = slice(start, start + _SHOWN)
    return f"{line[shown]!r}, probably {right[shown]!r} in a wrong encoding"


def _invisible(line: str) -> list[str]:
    """Return the invisible characters that do not belong into a line."""
    found = _INVISIBLE.findall(line)
    if found and not UNSPACED.isdisjoint(letters_by_script([line])):
        found = [each for each in found if each not in _LINE_BREAKS]
    if found and any(unicodedata.bidirectional(each) in {"R", "AL"} for each in line):
        found = [each for each in found if each not in _DIRECTIONS]
    return found
