"""Lines in another script than the rest of their side."""

from collections import Counter
from collections.abc import Sequence

from crosshead.addons.checks.suspects import Suspect
from crosshead.text.scripts import letters_by_script

_USUAL = 0.05
"""The share of a side's letters from which a script belongs to the side."""
_MOST_OTHER = 0.5
"""The largest share of a line's letters in other scripts."""
_LEAST_LETTERS = 3


def wrong_script(lines: Sequence[str], side: str) -> list[Suspect]:
    """Return the lines whose letters are mostly of a script that is rare on their side.

    The score is the share of the line's letters in other scripts.
    """
    found = [letters_by_script([line]) for line in lines]
    total: Counter[str] = Counter()
    for each in found:
        total.update(each)
    least = _USUAL * total.total()
    usual = {script for script, count in total.items() if count >= least}
    suspects = []
    for row, each in enumerate(found):
        letters = each.total()
        other = {script: count for script, count in each.items() if script not in usual}
        share = sum(other.values()) / max(letters, 1)
        if share > _MOST_OTHER and letters >= _LEAST_LETTERS:
            script = max(other, key=lambda name: other[name]).capitalize()
            suspects.append(Suspect(row, "script", share, f"the {side} has {script} letters"))
    return suspects
