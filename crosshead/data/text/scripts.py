"""The scripts that a text is written in, such as LATIN, CYRILLIC or CJK."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

_LETTER = re.compile(r"[^\W\d_]")
NOT_LATIN = re.compile("[\u0250-\u1dff\u2c00-\U0010ffff]")
"""Characters after the Latin blocks."""
NO_LETTERS = re.compile(r"[\W\d_]+")
"""Whatever stands between runs of letters."""

UNSPACED = {
    "THAI", "LAO", "KHMER", "MYANMAR", "TAI", "NEW", "JAVANESE", "BALINESE", "TIBETAN",
    "CJK", "HIRAGANA", "KATAKANA",
}  # fmt: skip
"""Scripts without spaces between words, by the names that `script` returns."""


@cache
def script(character: str) -> str:
    """Return the script of a letter, or an empty string for any other character.

    The script is the first word of the letter's Unicode name, because Python's `unicodedata` has
    no property of that name.

    Args:
        character: One character.
    """
    if not character.isalpha():
        return ""
    return unicodedata.name(character, "UNNAMED").partition(" ")[0].partition("-")[0]


def letters_by_script(texts: Iterable[str]) -> Counter[str]:
    """Return the number of letters of each script.

    Args:
        texts: The texts.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        if NOT_LATIN.search(text):
            counts.update(map(script, text))
        else:  # most text, and much faster
            counts["LATIN"] += len(_LETTER.findall(text))
    return Counter({name: count for name, count in counts.items() if name and count})


def foreign_scripts(text: str, known: Mapping[str, float]) -> tuple[list[str], float]:
    """Return the scripts in a text that are not known, and their share of its letters.

    Args:
        text: The text.
        known: The known scripts.
    """
    counts = letters_by_script([text])
    foreign = {name: count for name, count in counts.items() if name not in known}
    return sorted(foreign), sum(foreign.values()) / max(1, counts.total())
