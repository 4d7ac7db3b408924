"""Devices by name, CPU threads and cores, and the limit of cached kernels."""

import os

import torch

from crosshead.errors import ConfigError

DEVICE_TYPES = ("cpu", "cuda", "mps", "xpu")
"""Where models are run; PyTorch has names of other places, some of which hold no numbers."""

MOST_THREADS = 1024
"""PyTorch starts as many as it is told to, and dies where the system refuses."""


def choose_device(name: str) -> torch.device:
    """The device of that name (`cpu`, `cuda:1`, ...); `auto` is the first CUDA GPU, or the CPU.

    Raises `ConfigError` where there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        if name.partition(":")[0] in DEVICE_TYPES:
            return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError):
        pass  # that is how PyTorch says that it is not there
    raise ConfigError(
        f"no device {name!r} here; use auto, or one there is: {', '.join(_devices_here())}"
    )


def _devices_here() -> list[str]:
    """The names of all devices that there are."""
    found = ["cpu"]
    for kind in DEVICE_TYPES[1:]:
        module = torch.get_device_module(kind)
        if module.is_available():
            found += [f"{kind}:{index}" for index in range(module.device_count())]
    return found


def choose_threads(threads: int) -> int:
    """Set and return PyTorch's number of CPU threads, which is one for the whole process.

    0 is one for each core that this process may use. Raises `ConfigError` for a number that cannot
    be.
    """
    if not 0 <= threads <= MOST_THREADS:
        raise ConfigError(
            f"expected a number of threads from 1 to {MOST_THREADS}, or 0 for all cores, found "
            f"{threads}"
        )
    chosen = threads or available_cores()
    torch.set_num_threads(chosen)
    return chosen


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    # Of all systems Linux alone tells those of a process from those of the machine.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def hold_kernels() -> None:
    """Bound the compiled kernels that are kept, in a process that has computed nothing yet.

    oneDNN, and PyTorch's layer above it, each keep those of a thousand shapes; those of bfloat16
    products take gigabytes, and the shapes of sentence batches hardly recur. Fewer than these take
    longer to train with; the layer above is hardly missed. Both read this at their first
    product.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "1")
