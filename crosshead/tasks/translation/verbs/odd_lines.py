"""Warnings about odd lines at the end of `translate`: split, kept unchanged, or flagged."""

from collections import Counter
from collections.abc import Sequence

from crosshead.system.progress import counted
from crosshead.tasks.translation.line_translator import LONGEST_STRETCH, Translation
from crosshead.text.profile import FLAGS


class OddLines:
    """The lines of a whole input that were split, kept or flagged, for warnings at its end."""

    def __init__(self, unit: str = "line") -> None:
        self._unit = unit
        self._lines = self._flagged = 0
        self._counts: Counter[str] = Counter()
        self._first = ""
        self._split: list[str] = []
        self._cut = 0
        self._kept: list[str] = []

    def add(self, lines: Sequence[str], found: Sequence[Sequence[Translation]], first: int) -> None:
        """Count the lines by what happened to their best translations."""
        self._lines += len(lines)
        for number, (line, (best, *_)) in enumerate(zip(lines, found, strict=True), first):
            flags = [each for each in best.flags if each in FLAGS]
            self._counts.update(flags)
            self._flagged += bool(flags)
            name = f"{self._unit} {number}"
            if flags and not self._first:
                self._first = f"{name} ({_beginning(line)}): {FLAGS[flags[0]]}"
            if best.was_passed_through:
                self._kept.append(name)
            elif best.was_split:
                self._split.append(name)
                self._cut += best.sentence_was_cut

    def warnings(self) -> list[str]:
        """Return a warning for each kind of lines that there are."""
        found = []
        if self._kept:
            found.append(
                f"warning: {self._named(self._kept, 'was', 'were')} kept unchanged, not "
                f"translated: more than {LONGEST_STRETCH:,} characters without a space or "
                "punctuation"
            )
        if self._split:
            inside = f"; {self._cut:,} of them were split inside a sentence" if self._cut else ""
            if len(self._split) == 1:
                inside = ", split inside a sentence" if self._cut else ", split between sentences"
            found.append(
                f"warning: {self._named(self._split, 'is', 'are')} too long for the model, and "
                f"{'was' if len(self._split) == 1 else 'were'} translated in parts{inside}"
            )
        if self._flagged:
            kinds = [f"{name} {self._counts[name]:,}" for name in FLAGS if self._counts[name]]
            found.append(
                f"warning: {self._flagged:,} of {counted(self._lines, self._unit)} may be "
                f"translated badly ({', '.join(kinds)}); the first is {self._first}; --jsonl lists "
                f"the flags of each {self._unit}"
            )
        return found

    def _named(self, lines: Sequence[str], one: str, several: str) -> str:
        """Return the subject and the verb of a sentence about some lines."""
        if len(lines) == 1:
            return f"{lines[0]} {one}"
        every = counted(self._lines, self._unit)
        return f"{len(lines):,} of {every} (the first is {lines[0]}) {several}"


def _beginning(line: str, most: int = 40) -> str:
    """Return the beginning of a line in quotes, for a message."""
    text = " ".join(line.split())
    return f'"{text if len(text) <= most else text[: most - 1] + "…"}"'
