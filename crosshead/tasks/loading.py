"""From a bundle to a function on raw text: `load(path)` gives the pipeline of the bundle's task."""

from typing import Any, TypeVar

import torch

from crosshead.config import nearest
from crosshead.errors import BundleError, ConfigError
from crosshead.pipelines.base import Pipeline
from crosshead.system.devices import choose_device, choose_threads, hold_kernels
from crosshead.system.files import StrPath
from crosshead.tasks.registry import TASKS, load_bundle

T = TypeVar("T", bound=Pipeline)

PRECISIONS = ["float32", "bfloat16"]
"""Number formats of the computation and the weights. Sums and statistics are in float32 in both."""


def load(
    path: StrPath,
    device: str = "auto",
    threads: int | None = None,
    precision: str = "float32",
) -> Any:
    """Load the bundle at `path` as the pipeline of its task, such as a `Translator`.

    Args:
        path: Directory of a bundle, or a packed bundle.
        device: Name of a device for `choose_device`.
        threads: Number of CPU threads for `choose_threads`; None keeps PyTorch's.
        precision: One of `PRECISIONS`. On a processor with units for it, `bfloat16` is about one
            and a half times as fast. It sometimes finds another translation.

    Raises:
        BundleError: If there is no sound bundle at `path`.
        ConfigError: If the device, the number of threads or the precision is not available.
    """
    place = choose_device(device)
    if precision not in PRECISIONS:
        raise ConfigError(f"no precision {precision!r} here; {nearest(precision, PRECISIONS)}")
    if threads is not None:
        choose_threads(threads)
    hold_kernels()
    bundle = load_bundle(path, place)
    bundle.model.to(getattr(torch, precision))
    return TASKS[bundle.config.task].pipeline(bundle)


def load_as(
    kind: type[T],
    path: StrPath,
    device: str = "auto",
    threads: int | None = None,
    precision: str = "float32",
    *,
    instead: str | None = None,
) -> T:
    """Load a bundle of one kind; raise `BundleError` for a bundle of another kind.

    `instead` is the hint shown for a bundle of another kind, by default its own command.
    """
    found = load(path, device, threads, precision)
    if not isinstance(found, kind):
        instead = instead or f"see `crosshead {found.verb}`"
        raise BundleError(f"{path}: a model that {found.does}; {instead}")
    return found
