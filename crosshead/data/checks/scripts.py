"""Lines in another script than the rest of their side."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

from crosshead.data.checks.suspects import Suspect

_USUAL = 0.05
"""The share of a side's letters from which a script belongs to the side."""
_MOST_OTHER = 0.5
"""The largest share of a line's letters in other scripts."""
_LEAST_LETTERS = 3
_LETTER = re.compile(r"[^\W\d_]")
_NOT_LATIN = re.compile("[\u0250-\u1dff\u2c00-\U0010ffff]")
"""Characters after the Latin blocks."""


def wrong_script(lines: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines whose letters are mostly of a script that is rare on their side.

    The score is the share of the line's letters in other scripts.

    Args:
        lines: All lines of the side.
        side: The name of the side, for the reason.
    """
    found = [_scripts(line) for line in lines]
    total: dict[str, int] = {}
    for each in found:
        for script, count in each.items():
            total[script] = total.get(script, 0) + count
    least = _USUAL * sum(total.values())
    usual = {script for script, count in total.items() if count >= least}
    suspects = []
    for row, each in enumerate(found):
        letters = sum(each.values())
        other = {script: count for script, count in each.items() if script not in usual}
        share = sum(other.values()) / max(letters, 1)
        if share > _MOST_OTHER and letters >= _LEAST_LETTERS:
            script = max(other, key=lambda name: other[name]).capitalize()
            suspects.append(Suspect(row, "script", share, f"the {side} has {script} letters"))
    return suspects


def _scripts(line: str) -> dict[str, int]:
    """Return the number of letters of each script in a line."""
    if line.isascii() or not _NOT_LATIN.search(line):
        return {"LATIN": len(_LETTER.findall(line))}
    counts: dict[str, int] = {}
    for character in line:
        script = _script(character)
        if script:
            counts[script] = counts.get(script, 0) + 1
    return counts


@cache
def _script(character: str) -> str:
    """Return the first word of a letter's Unicode name, which is its script, or ""."""
    if not character.isalpha():
        return ""
    return unicodedata.name(character, "unknown").partition(" ")[0].partition("-")[0]
