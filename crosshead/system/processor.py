"""The processor: its cores and its instruction sets. Nothing here needs PyTorch."""

import os
from functools import cache
from pathlib import Path

from crosshead.errors import ConfigError

MOST_THREADS = 1024
"""The largest number of threads. PyTorch starts any number, and crashes if the system refuses."""


def number_of_threads(threads: int) -> int:
    """Return a number of threads, by default one for each core."""
    if not 0 <= threads <= MOST_THREADS:
        raise ConfigError(
            f"expected a number of threads from 1 to {MOST_THREADS}, or 0 for all cores, found "
            f"{threads}"
        )
    return threads or available_cores()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    # Only Linux distinguishes the cores of a process from the cores of the machine.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
