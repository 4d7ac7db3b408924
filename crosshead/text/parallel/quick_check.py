"""The quick check of training pairs, when a run begins, by the checks that packages add."""

from collections.abc import Collection
from typing import NamedTuple

from crosshead.extensions import added
from crosshead.text.parallel.pairs import ParallelText, Text
from crosshead.text.parallel.section import DataConfig


class Glance(NamedTuple):
    """The findings of a quick check."""

    warnings: list[str]
    """Warnings about suspect, misaligned and repeated pairs."""
    data_fault: str
    """A clause if half of the training pairs or of the validation pairs have one fault, or "". If
    fewer pairs are wrong, a model learns from the others."""
    suspects: Collection[int] = ()
    """The rows of the text that are suspect, apart from pairs that repeat others."""


def quick_check(text: Text, data: DataConfig, valid: ParallelText | None) -> Glance:
    """Return what the added checks find in the pairs of a run."""
    found = [check(text, data, valid) for check in added("checks").values()]
    return Glance(
        [line for each in found for line in each.warnings],
        next((each.data_fault for each in found if each.data_fault), ""),
        sorted({row for each in found for row in each.suspects}),
    )
