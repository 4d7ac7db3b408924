"""Memory of a run: an estimate of its need, the available memory, and recomputation."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from crosshead.attention.dropout import drawing_twice
from crosshead.bundle.weights import build_without_memory
from crosshead.errors import DataError, is_out_of_memory
from crosshead.models.base import Model
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.corpus import Corpus
from crosshead.training.activations import Activations, Measurement
from crosshead.training.distributed import ALONE, World
from crosshead.training.hardware import Machine

LIBRARY_BYTES = 500_000_000
"""Bytes that Python, PyTorch and other libraries hold before a model is built."""

KERNEL_BYTES = 100_000_000
"""Bytes that oneDNN holds on a CPU for kernels and packed operands of products in bfloat16, which
differ by shape. This is a round number; a test compares the estimate with runs of `tiny`."""

MMAP_THRESHOLD = 32 << 20
"""A larger block returns to the system when it is freed (glibc's largest M_MMAP_THRESHOLD, in
bytes). For smaller blocks the heap grows to about twice the memory in use."""

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


def memory_estimate(
    train: TrainConfig,
    activations: Activations,
    parameters: int,
    machine: Machine,
    world: World = ALONE,
) -> int:
    """Return the estimated bytes of a run: libraries, weights, gradients, moments and a batch.

    A test checks that the estimate is within 30 % of the memory of runs of `tiny`. In
    `benchmarks/memory.py` it was 1.03 to 1.42 times the memory of the process in float32 and 1.09
    to 1.61 times in bfloat16. Processes of less than 0.5 GB have the largest ratios.
    """
    has_kernels = machine.device.type == "cpu" and machine.dtype == torch.bfloat16
    own = sum(weight_bytes(parameters, train, machine, world))
    batch = activations.peak(lambda size: 1 if size > MMAP_THRESHOLD else 2)
    return LIBRARY_BYTES + KERNEL_BYTES * has_kernels + own + batch


def weight_bytes(
    parameters: int, train: TrainConfig, machine: Machine, world: World = ALONE
) -> tuple[int, int]:
    """Return the bytes of the weights, and the bytes of the gradients, of a process.

    The weights include masters and moments: for each weight of its shard, a process holds the
    weight, a float32 master if the model is narrower, two moments, and a moving average if
    `train.ema` asks for one. The main process also holds
    all weights in float32 for validation. The gradients are the gradients of the model, of its
    parallel replicas, and of the masters.
    """
    size = machine.dtype.itemsize
    wide = 4 if size < 4 else 0  # masters, and gradients of theirs
    held = -(-parameters // world.size) if train.sharded else parameters
    models = machine.parallel_microbatches(train, world.size)
    return (
        held * (size + wide + 8 + 4 * bool(train.ema)) + 4 * parameters * world.is_first,
        held * (size * models + wide),
    )


def too_large(
    recipe: Recipe, corpus: Corpus, machine: Machine, world: World, free: FreeMemory | None
) -> str:
    """Return a message if weights, gradients and moments do not fit into memory, or ""."""
    if free is None:
        return ""
    config = corpus.bundle_config(recipe, corpus.longest_input)
    built = build_without_memory(partial(corpus.kind.build, config))
    parameters = sum(parameter.numel() for parameter in built.parameters())
    needed = sum(weight_bytes(parameters, recipe.train, machine, world))
    if needed <= free.left:
        return ""
    return (
        f"a model of {parameters / 1e6:,.1f} M parameters needs about {_gb(needed)} to train "
        f"(weights, gradients, optimiser), but only {_gb(free.left)} of {free.limit} are free; "
        "choose a smaller model"
        + (", or set train.sharded" if world.size > 1 and not recipe.train.sharded else "")
    )


def measured_memory(
    measurement: Measurement,
    corpus: Corpus,
    machine: Machine,
    world: World,
    free: FreeMemory | None,
) -> int:
    """Return `memory_estimate` from measured rows; refuse rows that do not fit into memory.

    A single process splits a batch into microbatches if memory does not suffice, so a single row
    has to fit. Several processes do not split batches, so each process's share of a batch of the
    longest rows has to fit.
    """
    parameters = sum(each.numel() for each in measurement.model.parameters())
    train = measurement.train
    if free is None:
        largest = largest_microbatch(measurement, world.size)
        return memory_estimate(train, largest, parameters, machine, world)
    left = free.left - weight_bytes(parameters, train, machine, world)[0]
    with _allocating_at_most(left, machine.device):
        found = _unless_out_of_memory(partial(largest_microbatch, measurement, world.size))
        if found is None or found.rows == 1 or found.peak() > left or world.size > 1:
            longest = _refuse_long_rows(measurement, corpus, world, free, left)
            found = found or longest  # training splits a microbatch that does not fit
    return memory_estimate(train, found, parameters, machine, world)


def _refuse_long_rows(
    measurement: Measurement, corpus: Corpus, world: World, free: FreeMemory, left: int
) -> Activations:
    """Return the activations of the largest row; raise `DataError` if one of the rows does not fit.

    The function measures the longest row by each length, such as source or target, and by the sum
    of the lengths. `left` is the free memory without weights and moments. Gradients are not
    subtracted, because they replace the activations during the backward pass.
    """
    epoch, train = measurement.epoch, measurement.train
    lengths, found = epoch.lengths, []
    for row in sorted({int(size.argmax()) for size in (*lengths.T, lengths.sum(axis=1))}):
        count = 1
        if world.size > 1:
            batch = min(len(lengths), train.batch_tokens // int(lengths[row].max()))
            count = max(1, batch // (train.accumulate * world.size))
        activations = _unless_out_of_memory(partial(measurement.activations, [row], count))
        if activations is None or activations.peak() > left:
            taken = free.left if activations is None else free.left - left + activations.peak()
            how = "more than" if activations is None else "about"
            place = int(abs(corpus.lengths - lengths[row]).sum(axis=1).argmin())
            several = "raise train.accumulate, " if world.size > 1 else ""
            raise DataError(
                f"{corpus.origin(place)}: training on {epoch.extent(row)} needs {how} "
                f"{_gb(taken)}, but only {_gb(free.left)} of {free.limit} are free; {several}lower "
                f"{epoch.bound}, or choose a smaller model"
            )
        found.append(activations)
    return max(found, key=Activations.peak)


def largest_microbatch(measurement: Measurement, processes: int) -> Activations:
    """Return the activations of the largest microbatch, which holds only longest rows."""
    lengths, train = measurement.epoch.lengths, measurement.train
    rows = min(len(lengths), max(1, train.batch_tokens // int(lengths.max())))
    count = -(-rows // (train.accumulate * processes))
    longest = [lengths.sum(axis=1)] if count == 1 else lengths.T
    return measurement.activations(sorted({int(size.argmax()) for size in longest}), count)


def _unless_out_of_memory(measure: Callable[[], Activations]) -> Activations | None:
    """Return the result of `measure`, or None if it runs out of memory."""
    try:
        return measure()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    return None


@contextlib.contextmanager
def _allocating_at_most(left: int, device: torch.device) -> Iterator[None]:
    """Make allocations beyond `left` bytes fail in the block, for a CPU device on Linux.

    Without this limit the system would grant more memory than exists, and later kill the process.
    """
    if device.type != "cpu" or not sys.platform.startswith("linux"):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = _kilobytes(PROC / "self/status")["VmSize"]
    limit = size + max(0, left) + torch.get_num_threads() * THREAD_BYTES
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
    status = _kilobytes(PROC / "self/status")
    shared = [FreeMemory(limit, "its control group's memory") for limit in _cgroup_limits()]
    total = _kilobytes(PROC / "meminfo").get("MemTotal")
    if total is not None:
        shared.append(FreeMemory(total, "the machine's memory"))
    held = status["RssAnon"] + status["RssShmem"]  # the system can reclaim file pages
    limits = [free._replace(left=free.left // processes - held) for free in shared]
    address_space = _address_space()
    if address_space is not None:
        limits.append(
            FreeMemory(address_space - status["VmSize"], "this process's address space (ulimit -v)")
        )
    return min(limits, default=None)


def _address_space() -> int | None:
    """Return the limit of the address space in bytes, or None without a limit."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


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


def _gb(count: int) -> str:
    return f"{max(0, count) / 1e9:.1f} GB"
