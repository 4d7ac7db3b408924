"""Output of `translate` and `score`, in the order of the input, and warnings about odd lines."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from crosshead.cli.terminal import answering, at_terminal, json_line, note, watched
from crosshead.system.progress import counted
from crosshead.tasks.translation.line_translator import LONGEST_STRETCH, Translation
from crosshead.text.profile import FLAGS

if TYPE_CHECKING:
    from crosshead.tasks.translation.log_probs import ScoredTranslation
    from crosshead.tasks.translation.translator import Translator

SCORED_AT_ONCE = 1024
"""Number of pairs that `score` scores and prints together."""


def answers(
    lines: Sequence[str],
    found: Sequence[Sequence[Translation]],
    first: int,
    listed: bool,
    scores: bool,
    key: str | None,
) -> str:
    """Return the output of `translate` for lines; the first line has the number `first`.

    Each line gets its best translation or, with `listed`, all translations that were found. The
    output is JSON Lines if there is a `key`, under which the number of the line stands.
    """
    return "".join(
        _answer(number, line, best, listed, scores, key)
        for number, (line, best) in enumerate(zip(lines, found, strict=True), first)
    )


def scored(
    translator: "Translator", sources: Sequence[str], targets: Sequence[str], jsonl: bool
) -> Iterator[str]:
    """Yield the output of `score`, for one group of pairs at a time.

    A pair that is too long for the model also gets a line, `nan` or an object whose
    log-probability is null, and a warning.
    """
    total = len(sources) if watched(None) or not at_terminal() else None
    with answering(total, "pairs") as advance:
        for first in range(0, len(sources), SCORED_AT_ONCE):
            rows = slice(first, first + SCORED_AT_ONCE)
            pairs = list(zip(sources[rows], targets[rows], strict=True))
            refused = translator.refusals(sources[rows], targets[rows], first=first)
            kept = [pair for row, pair in enumerate(pairs) if row not in refused]
            sides = [pair[0] for pair in kept], [pair[1] for pair in kept]
            found = iter(translator.score(*sides, progress=partial(advance, first, len(pairs))))
            yield "".join(
                _scored(first + row + 1, *pair, None if row in refused else next(found), jsonl)
                for row, pair in enumerate(pairs)
            )
            for why in refused.values():
                note(f"warning: {why}; it was not scored")


def _scored(
    number: int, source: str, target: str, found: "ScoredTranslation | None", jsonl: bool
) -> str:
    if not jsonl:
        return f"{found.log_prob:.4f}\n" if found else "nan\n"
    return json_line(
        {
            "line": number,
            "source": source,
            "target": target,
            "log_prob": found.log_prob if found else None,
            "pieces": found.pieces if found else [],
            "piece_log_probs": found.piece_log_probs if found else [],
        }
    )


def _answer(
    number: int, line: str, best: Sequence[Translation], listed: bool, scores: bool, key: str | None
) -> str:
    if key is not None:
        head: dict[str, Any] = {key: number, "source": line}
        if listed:
            head["translations"] = [_translation_values(each) for each in best]
        else:
            head |= _translation_values(best[0])
        return json_line(head)
    if listed:
        return "".join(f"{number} ||| {each.text} ||| {each.score:.4f}\n" for each in best)
    return f"{best[0].text}\t{best[0].score:.4f}\n" if scores else f"{best[0].text}\n"


def _translation_values(translation: Translation) -> dict[str, Any]:
    values = dataclasses.asdict(translation)
    if not translation.pieces:  # a line that was not read has no score
        values |= {key: None for key in ("log_prob", "score") if math.isnan(values[key])}
    values["terms"] = [each._asdict() for each in translation.terms]
    return {"translation": values.pop("text"), **values}


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
                f"warning: kept unchanged, not translated: {self._named(self._kept)}, with more "
                f"than {LONGEST_STRETCH:,} characters without a space or punctuation"
            )
        if self._split:
            inside = f"; {self._cut:,} split inside a sentence" if self._cut else ""
            found.append(
                "warning: too long for the model, and translated in parts: "
                f"{self._named(self._split)}{inside}"
            )
        if self._flagged:
            kinds = [f"{name} {self._counts[name]:,}" for name in FLAGS if self._counts[name]]
            found.append(
                f"warning: {self._flagged:,} of {counted(self._lines, self._unit)} may be "
                f"translated badly ({', '.join(kinds)}); the first is {self._first}; --jsonl lists "
                f"the flags of each {self._unit}"
            )
        return found

    def _named(self, lines: Sequence[str]) -> str:
        """Return the number of some lines and the first of them."""
        return f"{len(lines):,} of {counted(self._lines, self._unit)} (the first is {lines[0]})"


def _beginning(line: str, most: int = 40) -> str:
    """Return the beginning of a line in quotes, for a message."""
    text = " ".join(line.split())
    return f'"{text if len(text) <= most else text[: most - 1] + "…"}"'
