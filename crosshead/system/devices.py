"""Devices by name, PyTorch's CPU threads, and a limit for cached kernels."""

import os

import torch

from crosshead.errors import ConfigError
from crosshead.system.processor import number_of_threads

DEVICE_TYPES = ("cpu", "cuda", "mps", "xpu")
"""The supported types of devices. PyTorch has more, some of which hold no numbers."""


def choose_device(name: str) -> torch.device:
    """Return the device with the given name, and turn cuDNN's attention off in this process.

    cuDNN plans each new shape. The shapes of sentences differ in every batch and in every step of a
    search, so other kernels are faster.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        if name.partition(":")[0] in DEVICE_TYPES:
            return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError):
        pass  # PyTorch raises these for a missing device
    raise ConfigError(
        f"no device {name!r} on this machine; use auto or one of: {', '.join(_devices_here())}"
    )


def _devices_here() -> list[str]:
    """Return the names of all devices of this machine."""
    found = ["cpu"]
    for kind in DEVICE_TYPES[1:]:
        module = torch.get_device_module(kind)
        if module.is_available():
            found += [f"{kind}:{index}" for index in range(module.device_count())]
    return found


def choose_threads(threads: int) -> int:
    """Set and return PyTorch's number of CPU threads for the whole process."""
    chosen = number_of_threads(threads)
    torch.set_num_threads(chosen)
    return chosen


def hold_kernels() -> None:
    """Limit the number of cached kernels, in a process that has not computed anything yet.

    oneDNN and PyTorch's layer above it each cache the kernels of a thousand shapes. Kernels of
    bfloat16 products take gigabytes, and the shapes of sentence batches hardly recur. A limit below
    this one makes training slower. The cache of the upper layer is hardly needed. Both read their
    limit at the first product.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "1")
