"""Load a bundle as the pipeline of its task: `crosshead.load`."""

from typing import Any, TypeVar

import torch

from crosshead.config import nearest
from crosshead.errors import BundleError, ConfigError
from crosshead.pipelines.base import Pipeline, TextPipeline
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
        path: The directory of a bundle, or a packed bundle.
        device: The device, as `choose_device` takes it.
        threads: The number of CPU threads, as `choose_threads` takes it; None keeps PyTorch's.
        precision: One of `PRECISIONS`. On a processor with hardware support, `bfloat16` is about
            one and a half times as fast. It sometimes finds another translation.

    Returns:
        The pipeline.

    Raises:
        BundleError: If there is no valid bundle at `path`.
        ConfigError: If the device, the number of threads or the precision is not available.
    """
    place = choose_device(device)
    if precision not in PRECISIONS:
        raise ConfigError(f"unknown precision {precision!r}; {nearest(precision, PRECISIONS)}")
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
    """Load a bundle as a pipeline of the class `kind`.

    Args:
        kind: The class of the pipeline.
        path: The directory of a bundle, or a packed bundle.
        device: The device, as in `load`.
        threads: The number of CPU threads, as in `load`.
        precision: The number format, as in `load`.
        instead: The hint shown if the bundle is of another kind of text model; by default, and for
            models of other data, its own command.

    Returns:
        The pipeline.

    Raises:
        BundleError: If there is no valid bundle at `path`, or it is of another kind.
        ConfigError: If the device, the number of threads or the precision is not available.
    """
    found = load(path, device, threads, precision)
    if not isinstance(found, kind):
        if instead is None or not isinstance(found, TextPipeline):
            instead = f"see `crosshead {found.verb}`"
        raise BundleError(f"{path} is a model that {found.does}; {instead}")
    return found
