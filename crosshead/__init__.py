"""crosshead: the Transformer as working software, from raw text to a translation.

    import crosshead

    crosshead.train(source="train.en", target="train.de", out="runs/en-de")
    translate = crosshead.load("runs/en-de")
    translate("A dog runs.")

`__all__` is the public interface, with the `__all__` of the packages below. Importing crosshead is
cheap: PyTorch is imported with the first name that needs it.
"""

from crosshead.version import __version__

TYPE_CHECKING = False  # that of typing, which takes longer to import than a Ctrl-C waits
if TYPE_CHECKING:
    from crosshead import bundle as bundle
    from crosshead import data as data
    from crosshead import inspection as inspection
    from crosshead import models as models
    from crosshead import pipelines as pipelines
    from crosshead import tasks as tasks
    from crosshead.addons.checks.api import check_data
    from crosshead.attention import masks as masks
    from crosshead.attention import scores as scores
    from crosshead.attention.attend import attend
    from crosshead.decoding.settings import DecodeConfig
    from crosshead.evaluation.sacrebleu_metrics import compare
    from crosshead.inspection.record import record_attention
    from crosshead.recipe.recipe import Recipe
    from crosshead.system.progress import Silent
    from crosshead.tasks.base import Task
    from crosshead.tasks.loading import load
    from crosshead.tasks.registry import register_architecture, register_task
    from crosshead.tasks.translation.scores import evaluate
    from crosshead.training.api import train

_HOMES = {
    "DecodeConfig": "crosshead.decoding.settings",
    "Recipe": "crosshead.recipe.recipe",
    "Silent": "crosshead.system.progress",
    "Task": "crosshead.tasks.base",
    "attend": "crosshead.attention.attend",
    "check_data": "crosshead.addons.checks.api",
    "compare": "crosshead.evaluation.sacrebleu_metrics",
    "evaluate": "crosshead.tasks.translation.scores",
    "load": "crosshead.tasks.loading",
    "record_attention": "crosshead.inspection.record",
    "register_architecture": "crosshead.tasks.registry",
    "register_task": "crosshead.tasks.registry",
    "train": "crosshead.training.api",
}
"""The module of each public function and class."""

_MODULES = {
    "bundle": "crosshead.bundle",
    "data": "crosshead.data",
    "inspection": "crosshead.inspection",
    "masks": "crosshead.attention.masks",
    "models": "crosshead.models",
    "pipelines": "crosshead.pipelines",
    "scores": "crosshead.attention.scores",
    "tasks": "crosshead.tasks",
}
"""The public modules."""

__all__ = [
    "DecodeConfig",
    "Recipe",
    "Silent",
    "Task",
    "__version__",
    "attend",
    "bundle",
    "check_data",
    "compare",
    "data",
    "evaluate",
    "inspection",
    "load",
    "masks",
    "models",
    "pipelines",
    "record_attention",
    "register_architecture",
    "register_task",
    "scores",
    "tasks",
    "train",
]


def __getattr__(name: str) -> object:
    """Import a public name at its first use (PEP 562): `import crosshead` needs no PyTorch."""
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names before they are imported, for completion."""
    return sorted(__all__)
