"""Signs that a model is not usable yet, and samples of its output."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from crosshead.bundle.config import BundleScore
from crosshead.data.text.signs import repeats_itself

LOW_BLEU = 5.0
"""Translations below this BLEU have hardly anything in common with the references."""

_SHARE = 0.1
"""The share of translations that are empty, or that repeat themselves more often than the
references do, from which on the model is at fault."""


class Sample(NamedTuple):
    """An example from the validation set: input, output of the model, and expected output."""

    input: str
    output: str
    expected: str


@dataclass(frozen=True)
class Findings:
    """Findings about the model at the end of a run."""

    scores: list[BundleScore]
    """The scores on the validation set that the bundle records."""
    faults: list[str] = field(default_factory=list)
    """Clauses that say why the model is not usable yet, if it is not."""
    labels: tuple[str, str, str] = ("input", "output", "expected")
    """The names of the parts of a sample."""
    samples: list[Sample] = field(default_factory=list)
    scores_enough: bool = False
    """True if the scores alone show that the model is usable."""


def translation_samples(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str], most: int = 3
) -> list[Sample]:
    """Return samples from the beginning, the middle and the end of a validation set.

    Args:
        sources: The source sentences.
        outputs: The translations.
        references: The reference translations.
        most: The largest number of samples.
    """
    count = min(most, len(sources))
    rows = [round(each) for each in np.linspace(0, len(sources) - 1, count)]
    return [Sample(sources[row], outputs[row], references[row]) for row in dict.fromkeys(rows)]


def translation_faults(
    bleu: float, sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> list[str]:
    """Return clauses that say why translations are unusable, or an empty list.

    Args:
        bleu: The BLEU of the outputs.
        sources: The source sentences.
        outputs: The translations.
        references: The reference translations.
    """
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
        faults.append(f"{given:,} different sentences have only {alike}")
    return faults


def _of_all(count: int, total: int, one: str, several: str) -> str:
    """Return a clause with the number of translations that share a property."""
    if total == 1:
        return f"the only translation {one}"
    return f"{count:,} of {total:,} translations {one if count == 1 else several}"


def frequency_faults(nll: float, training: np.ndarray, valid: np.ndarray, size: int) -> list[str]:
    """Return a clause if a model predicts text hardly better than token frequencies do.

    Args:
        nll: The mean negative log-likelihood of a token of the validation text, in nats.
        training: The ids of the training text.
        valid: The ids of the validation text.
        size: The number of tokens in the vocabulary.
    """
    counts = np.bincount(training, minlength=size) + 1.0
    guess = float(-np.log(counts[valid[1:]] / counts.sum()).mean())
    if nll < 0.95 * guess:
        return []
    return [
        f"its loss of {nll:.2f} nats per token is not clearly below {guess:.2f}, the loss of "
        "predicting by token frequencies"
    ]
