"""Signs that a model is of no use yet, and samples of what it makes."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from crosshead.bundle import BundleScore
from crosshead.places import how_to_resume
from crosshead.training.checkpoint import Progress
from crosshead.training.log import counted
from crosshead.training.recipe import TrainConfig

LOW_BLEU = 5.0
"""Translations that score less have hardly anything in common with the references."""

_MANY_UPDATES = 5000
"""After so many updates a model that is of no use needs something else than more of them."""

_SHARE = 0.1
"""So large a share of translations that repeat themselves, beyond that of the references, tells
that a model does."""

_PHRASES = re.compile(r"(?:^|(?<=\s))((?=\S*[^\W\d_])\S+(?:\s+\S+){0,3}?)(?:\s+\1){3,}(?=\s|$)")
_LETTERS = re.compile(r"([^\W\d_]\S{0,7}?)\1{5,}|(\S)\2{15,}")


class Sample(NamedTuple):
    """A part of the validation set, and what the model makes of it."""

    given: str
    made: str
    wanted: str


@dataclass(frozen=True)
class Findings:
    """Findings about the model at the end of a run."""

    scores: list[BundleScore]
    """The scores on the validation set that the bundle is to tell."""
    faults: list[str] = field(default_factory=list)
    """Clauses that say why the model is of no use yet, or none."""
    labels: tuple[str, str, str] = ("source", "output", "reference")
    """Names of the parts of a sample."""
    samples: list[Sample] = field(default_factory=list)


def translation_samples(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str], most: int = 3
) -> list[Sample]:
    """Return samples from the beginning, the middle and the end of a validation set."""
    count = min(most, len(sources))
    rows = [round(each) for each in np.linspace(0, len(sources) - 1, count)]
    return [Sample(sources[row], outputs[row], references[row]) for row in dict.fromkeys(rows)]


def translation_faults(
    bleu: float, sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> list[str]:
    """Return clauses that say in which way translations are of no use, or none."""
    faults = []
    if bleu < LOW_BLEU:
        faults.append(f"BLEU {bleu:.1f} is below {LOW_BLEU:g}")
    looping = sum(map(repeats_itself, outputs))
    if looping - sum(map(repeats_itself, references)) >= max(1.0, _SHARE * len(outputs)):
        faults.append(_of_all(looping, len(outputs), "repeats itself", "repeat themselves"))
    empty = sum(not output.strip() for output in outputs)
    if empty >= max(1.0, _SHARE * len(outputs)):
        faults.append(_of_all(empty, len(outputs), "is empty", "are empty"))
    rows = zip(sources, outputs, references, strict=True)
    full = [(source, output.strip(), wanted) for source, output, wanted in rows if output.strip()]
    given, made, expected = (len({row[part] for row in full}) for part in range(3))
    if min(given, expected) >= 10 and made < min(given, expected) / 2:
        alike = "one translation" if made == 1 else f"{made:,} different translations"
        faults.append(f"{given:,} different sentences have {alike} only")
    return faults


def _of_all(count: int, total: int, one: str, several: str) -> str:
    """Return a clause that says of how many translations something is true."""
    if total == 1:
        return f"the only translation {one}"
    return f"{count:,} of {total:,} translations {one if count == 1 else several}"


def repeats_itself(text: str) -> bool:
    """Return whether a text says a phrase of up to four words four times in a row.

    Or some letters six times, since not all scripts write spaces, or any sign sixteen times.
    """
    return bool(_PHRASES.search(text) or _LETTERS.search(text))


def frequency_faults(nll: float, training: np.ndarray, valid: np.ndarray, size: int) -> list[str]:
    """Return a clause where a model predicts text hardly better than by how frequent tokens are.

    Args:
        nll: The mean negative log-likelihood of a token of the validation text, in nats.
        training: The ids of the training text.
        valid: The ids of the validation text.
        size: How many tokens there are in the vocabulary.
    """
    counts = np.bincount(training, minlength=size) + 1.0
    guess = float(-np.log(counts[valid[1:]] / counts.sum()).mean())
    if nll < 0.95 * guess:
        return []
    return [
        f"its loss of {nll:.2f} nats a token is not clearly below the {guess:.2f} of guessing by "
        "how frequent tokens are"
    ]


def warmup_signs(
    config: TrainConfig, progress: Progress, findings: Findings
) -> tuple[list[str], str]:
    """Return what the end of training within the warm-up tells of a model.

    Args:
        config: The settings of training.
        progress: Where the run stands.
        findings: What was found out about the model.

    Returns:
        A clause that says that the model is of no use yet, or none; and a note, or nothing, where
        the end within the warm-up is the only sign of it, and the model is fine-tuned or scores
        enough.
    """
    warmup = config.warmup or 0
    if progress.update > warmup:
        return [], ""
    scores_enough = any(
        each.metric == "BLEU" and each.value >= LOW_BLEU for each in findings.scores
    )
    if not findings.faults and (progress.tuned or scores_enough):
        return [], (
            f"training ended within the warm-up (update {progress.update:,} of {warmup:,}); longer "
            "training may improve the model"
        )
    return [
        f"training ended at update {progress.update:,}, within the warm-up of "
        f"{counted(warmup, 'update')}"
    ], ""


def verdict(
    faults: Sequence[str], config: TrainConfig, progress: Progress, reason: str, out: Path
) -> str:
    """Return a line that says that a model is not usable yet, and what to do, or nothing.

    Args:
        faults: Clauses that say why.
        config: How it was trained.
        progress: How far training went.
        reason: Why it ended.
        out: The run directory.
    """
    if not faults:
        return ""
    *first, last = faults
    why = f"this model is not usable yet: {', '.join(first)}{' and ' if first else ''}{last}; "
    budget = reason.partition(" ")[0]
    if budget not in ("max_updates", "max_epochs", "max_minutes"):
        return why + "it has stopped getting better: train on more text, or another preset"
    if progress.update >= _MANY_UPDATES:
        return why + (
            "check that the training text is what it should be (of pairs, that each line is the "
            "translation of its line), or train on more of it"
        )
    # As much as it takes to train for five warm-ups at least.
    factor = max(10, math.ceil(5 * (config.warmup or 0) / max(1, progress.update)))
    longer = np.format_float_positional(factor * getattr(config, budget), trim="-")
    flag = f"--{budget.replace('_', '-')} {longer}"
    return f"{why}train longer: {how_to_resume(out)} {flag}"
