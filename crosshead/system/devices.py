"""Devices by name, CPU threads, cores and instruction sets, and a limit for cached kernels."""

import os
from functools import cache
from pathlib import Path

import torch

from crosshead.errors import ConfigError

DEVICE_TYPES = ("cpu", "cuda", "mps", "xpu")
"""The supported types of devices. PyTorch has more, some of which hold no numbers."""

MOST_THREADS = 1024
"""The largest number of threads. PyTorch starts any number, and crashes if the system refuses."""


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
    # Only Linux distinguishes the cores of a process from the cores of the machine.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def hold_kernels() -> None:
    """Limit the number of cached kernels, in a process that has not computed anything yet.

    oneDNN and PyTorch's layer above it each cache the kernels of a thousand shapes. Kernels of
    bfloat16 products take gigabytes, and the shapes of sentence batches hardly recur. A limit below
    this one makes training slower. The cache of the upper layer is hardly needed. Both read their
    limit at the first product.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "1")


UNITS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile", "asimd", "bf16", "sve")
"""Instruction sets that decide how fast a CPU multiplies matrices."""

CPUINFO = Path("/proc/cpuinfo")
"""The file in which Linux describes its processors; other systems have no such file."""


def instruction_sets() -> list[str]:
    """Return the members of `UNITS` that this CPU has; none if the system does not list them."""
    _, flags = _described(CPUINFO)
    return [unit for unit in UNITS if unit in flags]


def saturates_int8() -> bool:
    """Return whether oneDNN may compute 8-bit products inexactly on this CPU.

    Without dot products of bytes (VNNI), it adds two products of bytes in 16 bits, which overflow.
    CTranslate2 takes Intel's MKL on Intel's processors, and oneDNN on those of other vendors.
    """
    vendor, flags = _described(CPUINFO)
    return vendor not in ("", "GenuineIntel") and not flags & {"avx_vnni", "avx512_vnni"}


@cache
def _described(path: Path) -> tuple[str, frozenset[str]]:
    """Return the vendor and the flags of the first processor; nothing if there is no file."""
    try:
        text = path.read_text()
    except OSError:
        return "", frozenset()
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    flags = found.get("flags") or found.get("Features") or ""
    return found.get("vendor_id", ""), frozenset(flags.split())
