"""Memory of a process: what it may still take, what it has taken, and recomputation."""

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from crosshead.attention.dropout import drawing_twice
from crosshead.models.base import Model

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


def recompute_activations(model: Model) -> None:
    """Keep only the inputs of each layer, and compute the rest again in the backward pass.

    This applies PyTorch's activation checkpointing to all layers of the stacks. Gradients stay the
    same, because dropout draws the same numbers again. An update takes about a third longer.

    Reference:
        Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
    """
    for layer in model.layers():
        layer.forward = partial(
            checkpoint, layer.forward, use_reentrant=False, context_fn=drawing_twice
        )


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
