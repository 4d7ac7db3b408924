"""Properties of this machine: device, threads, best precision, speed, and free memory."""

import contextlib
import inspect
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from crosshead.caller import setting
from crosshead.errors import ConfigError, UserError
from crosshead.recipe.train import TrainConfig
from crosshead.system.devices import choose_threads, hold_kernels
from crosshead.system.processor import available_cores
from crosshead.system.progress import counted

LEAST_MICROBATCH = 2048
"""Smallest number of tokens of a microbatch with a thread of its own; smaller products are slower.
"""


@dataclass(frozen=True)
class MatrixRates:
    """Billions of floating-point operations per second, for matrix products of a layer's shape."""

    float32: float
    bfloat16: float


@dataclass(frozen=True)
class Machine:
    """Device, threads and number format of a run."""

    device: torch.device
    threads: int
    dtype: torch.dtype
    why: str
    """The reason for this precision, in a clause."""
    processes: int = 1
    """The number of processes of a run on this machine, which share its memory."""

    @property
    def name(self) -> str:
        """`cpu` or another device type, or the name of a CUDA GPU."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return self.device.type

    @property
    def precision(self) -> str:
        """The name of `dtype`."""
        return str(self.dtype).removeprefix("torch.")

    def free_memory(self) -> "FreeMemory | None":
        """Return the memory that this process may still take; None if the system does not say."""
        return free_memory(self.device, self.processes)

    def parallel_microbatches(self, config: TrainConfig, processes: int = 1) -> int:
        """Return the number of microbatches that are computed at a time, one per thread."""
        if self.device.type != "cpu" or processes > 1:
            return 1
        return max(
            1, min(self.threads, config.batch_tokens // (config.accumulate * LEAST_MICROBATCH))
        )


def choose_machine(config: TrainConfig, device: torch.device, processes: int = 1) -> Machine:
    """Set the number of threads and choose the precision."""
    if config.threads > available_cores():
        raise ConfigError(
            f"is {config.threads}, but this process may use "
            f"{counted(available_cores(), 'core')}; "
            f"{setting('train.threads', 0, has_flag=True)} takes all",
            key="train.threads",
        )
    hold_kernels()
    threads = choose_threads(config.threads or max(1, available_cores() // processes))
    dtype, why = choose_precision(config.precision, device)
    return Machine(device, threads, dtype, why, processes)


@contextlib.contextmanager
def naming_added_modules(model: nn.Module, machine: Machine) -> Iterator[None]:
    """Raise `UserError` if modules of other packages do not compute in the precision."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError) as error:
        names = " or ".join(sorted(set(_added(model))))
        if not names or machine.dtype == torch.float32 or not _OF_TYPES.search(str(error)):
            raise
        raise UserError(
            f"{names} does not compute in {machine.precision} ({str(error).splitlines()[0]}): its "
            "weights have this type, so make its tensors in this type too, or convert both to "
            f"float32; or train in float32 ({setting('train.precision', has_flag=True)})"
        ) from error


_OF_TYPES = re.compile(r"dtype|BFloat16|Half|type \(")
"""PyTorch's messages about tensors of different number formats."""

_OWN = ("crosshead", "torch", "functools")
"""Packages whose modules and functions compute in every precision."""


def _added(model: nn.Module) -> Iterator[str]:
    """Yield the names of a model's modules and functions that other packages define."""
    for module in model.modules():
        for part in (module, *vars(module).values()):
            named = part if inspect.isroutine(part) else type(part)
            if callable(part) and (named.__module__ or "torch").split(".")[0] not in _OWN:
                yield named.__qualname__


@cache
def matrix_rates(device: torch.device, threads: int, seconds: float = 0.1) -> MatrixRates:
    """Measure the speed of matrix products in each precision, once in a process.

    The products are (4096 x 512) (512 x 512). A CPU without units for bfloat16 may take seconds for
    one of them. Where one would take longer than five times `seconds`, 64 rows are multiplied.
    """
    return MatrixRates(
        _rate(device, torch.float32, seconds), _rate(device, torch.bfloat16, seconds)
    )


def choose_precision(name: str, device: torch.device) -> tuple[torch.dtype, str]:
    """Return the precision to compute in, and a clause with the reason."""
    if name != "auto":
        return getattr(torch, name), "as the recipe says"
    rates = matrix_rates(device, torch.get_num_threads())
    faster = rates.bfloat16 > 1.2 * rates.float32
    measured = f"measured {rates.float32:.0f} GFLOP/s in float32, {rates.bfloat16:.0f} in bfloat16"
    return (torch.bfloat16 if faster else torch.float32), measured


def _rate(device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    rows = torch.randn(4096, 512, device=device).to(dtype)
    matrix = torch.randn(512, 512, device=device).to(dtype)
    few = rows[:64]
    few @ matrix  # the first product of a type takes longer
    began = time.perf_counter()
    few @ matrix
    if len(rows) / len(few) * (time.perf_counter() - began) > 5 * seconds:
        rows = few
    rows @ matrix
    began, products = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        rows @ matrix
        products += 1
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 2 * len(rows) * 512 * 512 * products / (time.perf_counter() - began) / 1e9


THREAD_BYTES = 72 << 20
"""Bytes of address space that glibc reserves for a new thread: a heap of 64 MiB, and a stack."""

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
"""Linux directories with the memory of the machine, and the use and limits of a process."""


class FreeMemory(NamedTuple):
    """The memory that a process may take in addition to the memory that it holds."""

    left: int
    """Memory left, in bytes."""
    limit: str
    """The name of the limit, for messages."""

    def __str__(self) -> str:
        """Return the memory and its limit, for messages."""
        return f"{max(0, self.left) / 1e9:.1f} GB of {self.limit}"


@contextlib.contextmanager
def allocating_at_most(free: FreeMemory | None, device: torch.device) -> Iterator[None]:
    """Make allocations beyond the free memory fail in the block, for a CPU device on Linux.

    Without this limit the system would grant more memory than exists, and later kill the process.
    """
    if free is None or device.type != "cpu":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    # The threads that compute microbatches, and those that PyTorch starts.
    threads = 2 * torch.get_num_threads() * THREAD_BYTES
    limit = _kilobytes(PROC / "self/status")["VmSize"] + max(0, free.left) + threads
    bounds = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([limit, *bounds]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def peak_memory(device: torch.device) -> int:
    """Return the peak memory of this process in bytes: on the GPU, or resident on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = PROC / "self/status"
    if status.exists():  # getrusage would include the parent process's memory
        return _kilobytes(status)["VmHWM"]
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def free_memory(device: torch.device, processes: int) -> FreeMemory | None:
    """Return the memory that this process may still take; None if the system does not say.

    On a CPU it is the smallest remainder of three limits: the address space (RLIMIT_AS), the
    control group's memory and the machine's memory. Swap does not count: an update that waits for a
    disk takes minutes. Memory that other processes hold is not subtracted, as they may have
    released it by then.
    """
    if device.type == "cuda":
        bytes_free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return FreeMemory(bytes_free + unused, "the GPU's memory")
    if device.type != "cpu" or not sys.platform.startswith("linux"):
        return None
    import resource

    status = _kilobytes(PROC / "self/status")
    shared = [FreeMemory(limit, "its control group's memory") for limit in _cgroup_limits()]
    shared.append(FreeMemory(_kilobytes(PROC / "meminfo")["MemTotal"], "the machine's memory"))
    held = status["RssAnon"] + status["RssShmem"]  # the system can reclaim file pages
    limits = [free._replace(left=free.left // processes - held) for free in shared]
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        left = address_space - status["VmSize"]
        limits.append(FreeMemory(left, "this process's address space (ulimit -v)"))
    return min(limits)


def _cgroup_limits() -> Iterator[int]:
    """Yield the memory limits, in bytes, of this process's control groups, versions 1 and 2."""
    try:
        lines = (PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, name = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        root, file = CGROUPS, "memory.max"
        if kinds:
            root, file = CGROUPS / "memory", "memory.limit_in_bytes"
        place = root / name.lstrip("/")
        for group in (place, *place.parents):  # limits of parent groups apply too
            if group.is_relative_to(root) and (group / file).is_file():
                found = (group / file).read_text().strip()
                if found.isdigit():  # otherwise the file contains "max"
                    yield int(found)


def _kilobytes(path: Path) -> dict[str, int]:
    """Return the lines `NAME: NUMBER kB` of a system file as bytes by name."""
    fields = [line.split() for line in path.read_text().splitlines()]
    return {each[0].rstrip(":"): 1024 * int(each[1]) for each in fields if each[2:] == ["kB"]}
