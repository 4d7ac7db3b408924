"""The processor: its instruction sets, as Linux describes them."""

from functools import cache
from pathlib import Path

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
