"""Kinds of data: how each is read, trained on and validated.

`__all__` holds what an own task needs, besides the classes of `crosshead.data`, `crosshead.bundle`,
`crosshead.models` and `crosshead.pipelines`.
"""

from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Corpus, Epoch, Stopped, TaskBatch
from crosshead.tasks.registry import register_architecture, register_task
from crosshead.tasks.usability import Findings, Sample
from crosshead.tasks.validation import LOSS, Loss, Metric, Validation, Validator

__all__ = [
    "LOSS",
    "Corpus",
    "Epoch",
    "Findings",
    "Loss",
    "Metric",
    "Sample",
    "Stopped",
    "Task",
    "TaskBatch",
    "Validation",
    "Validator",
    "register_architecture",
    "register_task",
]
