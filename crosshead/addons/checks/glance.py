"""A quick check of some pairs, for the beginning of a training run."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from crosshead.addons.checks.check import REPEATS, DataReport, check_pairs
from crosshead.addons.checks.suspects import REPAIRED
from crosshead.caller import how_to_check, setting
from crosshead.system.progress import counted
from crosshead.text.parallel.filters import Glance
from crosshead.text.parallel.pairs import Origin, Pair, ParallelText, Text, pairs_at
from crosshead.text.parallel.section import TRAIN, VALID, DataConfig

MOST_ROWS = 10_000
"""The largest number of pairs that are checked. So the check takes about two seconds."""

_BLOCKS = 3
"""The number of blocks of neighbouring pairs in the sample. Only neighbours show a shift."""
_LEAST, _LEAST_SHARE = 5, 0.005
"""The smallest number and share of pairs of a kind that are worth a warning."""
_SAID_ELSEWHERE = ("empty", "near-duplicate")
"""Kinds that training reports itself, or that may be intended."""
_MANY_REPEATS = 0.1
"""The share of pairs that repeat an earlier one from which a line says so; fewer may be meant."""
_MOST_SPOILT = 0.5
"""The share of pairs with one fault from which on the data is a likely cause of a poor model."""
_MANY_IN_FILES = 0.1
"""The share of suspect pairs among those of validation files from which a line says so. They may be
of another domain: of messages of programs beside image captions, at most 0.07 were suspect."""
_MOST_VALID, _MOST_BESIDE = 300, 1000
"""The largest numbers of validation pairs that are checked, and of training pairs beside them."""


def glance(text: Text, data: DataConfig, valid: ParallelText | None) -> Glance:
    """Check a sample of pairs, and return what was found."""
    rows = _sample(len(text), MOST_ROWS)
    pairs = list(pairs_at(text, rows).values())
    sides = [source for source, _ in pairs], [target for _, target in pairs]
    held = [valid] if valid is not None else []
    report = check_pairs(sides, lambda row: text.origin(int(rows[row])), held, _SAID_ELSEWHERE)
    checked = counted(len(rows), "pair")
    checked = checked if len(rows) == len(text) else f"a sample of {checked}"
    warnings = _training_warnings(report, data, checked)
    bad = {each.row for each in report.suspects if each.kind not in (*REPAIRED, *REPEATS)}
    fault = report.verdict if report.spoilt >= _MOST_SPOILT else ""
    if valid is not None:
        sound = [pair for row, pair in enumerate(pairs) if row not in bad]
        found, share = _suspect_validation(valid, sound, data)
        fault = fault or (found if share >= _MOST_SPOILT else "")
        warnings += [f"warning: {found}"] if found else []
    return Glance(warnings, fault, rows[sorted(bad)].tolist())


def _training_warnings(report: DataReport, data: DataConfig, checked: str) -> list[str]:
    """Return warnings about training pairs that are misaligned, repeated or suspect."""
    warnings = [f"warning: {report.verdict}"] if report.verdict else []
    counts = report.counts()
    repeats = counts.pop("duplicate", 0)
    if repeats >= max(_LEAST, _MANY_REPEATS * len(report)) and not data.drop_duplicates:
        once = setting("data.drop_duplicates", value=True)
        warnings.append(
            f"warning: {repeats:,} of {checked} repeat an earlier one; to use each once: {once}"
        )
    # Some identical pairs are right, such as names. The verdict tells if they are many.
    counts.pop("identical", 0)
    least = max(_LEAST, _LEAST_SHARE * len(report))
    found = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count >= least)
    if found:
        keys = (*TRAIN, "fields", *VALID)
        files = {key: getattr(data, key) for key in keys if getattr(data, key)}
        warnings.append(
            f"warning: suspect pairs in {checked}: {found}; to see them: {how_to_check(files)}"
        )
    return warnings


def _suspect_validation(
    valid: ParallelText, sound: Sequence[Pair], data: DataConfig
) -> tuple[str, float]:
    """Return a clause if many pairs of validation files are suspect, and the share of these.

    Alone, they may be too few to learn from, and exchanged files look right. They are checked after
    the training pairs, so they change no finding about these.
    """
    beside = [sound[row] for row in _sample(len(sound), _MOST_BESIDE)]
    seen = pairs_at(valid, _sample(len(valid), min(_MOST_VALID, len(beside) // 2))).values()
    sides = [source for source, _ in [*beside, *seen]], [target for _, target in [*beside, *seen]]
    report = check_pairs(sides, lambda row: Origin("", row + 1), skip=REPEATS)
    suspects = [x for x in report.suspects if x.row >= len(beside) and x.kind not in REPAIRED]
    # Some identical pairs are right, such as names.
    if sum(each.kind == "identical" for each in suspects) < _MOST_SPOILT * len(seen):
        suspects = [each for each in suspects if each.kind != "identical"]
    count = len({each.row for each in suspects})
    if count < max(_LEAST, _MANY_IN_FILES * len(seen)):
        return "", 0.0
    kind, reason = Counter((each.kind, each.reason) for each in suspects).most_common(1)[0][0]
    sample = "" if len(seen) == len(valid) else "a sample of "
    return (
        f"{count:,} of {sample}{counted(len(seen), 'validation pair')} are suspect, most often "
        f"{kind} ({reason}), so scores may mislead; check "
        f"{', '.join([*data.valid_source, *data.valid_target, *data.valid_pairs])}"
    ), count / len(seen)


def _sample(count: int, most: int) -> np.ndarray:
    """Return the sorted rows of a few blocks that are spread over a text, at most `most`."""
    if count <= most:
        return np.arange(count)
    size = most // _BLOCKS
    begins = np.linspace(0, count - size, _BLOCKS).astype(int)
    return np.unique((begins[:, None] + np.arange(size)).ravel())
