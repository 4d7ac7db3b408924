"""Kinds of data: how each is read, trained on and validated.

`__all__` holds what an own task needs, besides the classes of `crosshead.data`, `crosshead.bundle`,
`crosshead.models` and `crosshead.pipelines`. Names are imported at their first use, because the
verbs of the tasks are imported before PyTorch is.
"""

from crosshead.extensions import imported_at_use

TYPE_CHECKING = False  # that of typing, which takes longer to import than a Ctrl-C waits
if TYPE_CHECKING:
    from crosshead.tasks.base import Task
    from crosshead.tasks.corpus import Corpus, Epoch, Stopped, TaskBatch
    from crosshead.tasks.registry import register_architecture, register_task
    from crosshead.tasks.usability import Findings, Sample
    from crosshead.tasks.validation import LOSS, Loss, Metric, Validation, Validator

_HOMES = {
    "LOSS": "crosshead.tasks.validation",
    "Corpus": "crosshead.tasks.corpus",
    "Epoch": "crosshead.tasks.corpus",
    "Findings": "crosshead.tasks.usability",
    "Loss": "crosshead.tasks.validation",
    "Metric": "crosshead.tasks.validation",
    "Sample": "crosshead.tasks.usability",
    "Stopped": "crosshead.tasks.corpus",
    "Task": "crosshead.tasks.base",
    "TaskBatch": "crosshead.tasks.corpus",
    "Validation": "crosshead.tasks.validation",
    "Validator": "crosshead.tasks.validation",
    "register_architecture": "crosshead.tasks.registry",
    "register_task": "crosshead.tasks.registry",
}

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

__getattr__ = imported_at_use(__name__, _HOMES)
