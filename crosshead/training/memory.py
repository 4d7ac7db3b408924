"""Memory of a run: its need, the memory available, and a way to need less."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from crosshead.attention.dropout import drawing_twice
from crosshead.bundle.weights import build_without_memory
from crosshead.errors import ConfigError, DataError
from crosshead.models.base import Model, ModelConfig, Numbers, Shape
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.corpus import Corpus
from crosshead.training.distributed import ALONE, World
from crosshead.training.hardware import Machine

LIBRARIES = 500_000_000
"""Bytes that Python, PyTorch and their like hold before there is a model."""

KERNELS = 100_000_000
"""Bytes that oneDNN holds on a CPU for products in bfloat16, whose kernels and packed operands
differ by shape: a round number, which a test of the estimate at `tiny` holds to what runs take."""

MAPPED = 32 << 20
"""A block of more bytes is given back to the system when it is freed (glibc's largest
M_MMAP_THRESHOLD); of smaller ones the heap comes to hold about twice what is in use."""

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
"""Linux's files on the machine's memory, a process's use and its limits."""


class Room(NamedTuple):
    """The memory that a process may take beyond what it holds."""

    left: int
    """Memory left, in bytes."""
    of: str
    """The limit, named for messages."""


def recompute_activations(model: Model) -> None:
    """Keep of each layer its inputs alone, and compute the rest again on the way back.

    Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost") of
    all layers of the stacks, by PyTorch's own function: gradients are the same, since dropout draws
    the same again, and an update takes about a third longer.
    """
    for layer in model.layers():
        layer.forward = partial(
            checkpoint, layer.forward, use_reentrant=False, context_fn=drawing_twice
        )


def memory_estimate(
    recipe: Recipe, shape: Shape, parameters: int, machine: Machine, world: World = ALONE
) -> int:
    """Bytes that a run takes: the libraries, the weights with all that hangs on them, a batch.

    `shape` is that of the largest part of a batch that is computed at once. Held by tests against
    the memory of runs, within 30 %; `benchmarks/memory.py` prints both.
    """
    size = machine.dtype.itemsize
    held = _numbers(recipe.model, shape, machine, recompute=recipe.train.recompute)
    weights = (1 if held.block * size > MAPPED else 2) * held.weights
    batch = 2 * held.vectors + weights
    has_kernels = machine.device.type == "cpu" and machine.dtype == torch.bfloat16
    own = sum(weight_bytes(parameters, recipe.train, machine, world))
    return LIBRARIES + KERNELS * has_kernels + own + batch * size


def weight_bytes(
    parameters: int, train: TrainConfig, machine: Machine, world: World = ALONE
) -> tuple[int, int]:
    """Bytes of the weights with masters, moments and those to validate with; of the gradients.

    For each weight of its share a process holds the weight, its master where that is another, and
    two moments; the first process also all weights in float32. Gradients are those of the model,
    of its replicas that compute side by side, and of the masters.
    """
    size = machine.dtype.itemsize
    wide = 4 if size < 4 else 0  # masters, and gradients of theirs
    held = -(-parameters // world.size) if train.sharded else parameters
    models = machine.parallel_microbatches(train, world.size)
    return (
        held * (size + wide + 8) + 4 * parameters * world.is_first,
        held * (size * models + wide),
    )


def batch_bytes(model: ModelConfig, shape: Shape, machine: Machine, *, recompute: bool) -> int:
    """Bytes that computing a part of a batch takes at least: what is held at once at its peak.

    Counted without a margin: `benchmarks/memory.py` prints it beside what memory grows by.
    """
    held = _numbers(model, shape, machine, recompute=recompute)
    return (held.vectors + held.weights) * machine.dtype.itemsize


def _numbers(model: ModelConfig, shape: Shape, machine: Machine, *, recompute: bool) -> Numbers:
    return model.numbers_held(shape, weights=machine.device.type == "cpu", recompute=recompute)


def refuse_what_cannot_fit(recipe: Recipe, corpus: Corpus, machine: Machine, world: World) -> None:
    """Raise an error where the model, or the largest pair, takes more memory than there is.

    A batch is computed in parts where memory does not suffice, so that what must fit is a single
    pair; of several processes, whose batches are not split, each one's share of a batch of such
    pairs. What is compared is what the process may still take with what is certain to be held at
    once. Raises `ConfigError` for the model and `DataError` for the pair, by file and line.
    """
    room = memory_room(machine.device, world.local_size)
    if room is None:
        return
    config = corpus.bundle_config(recipe, corpus.reach)
    built = build_without_memory(partial(corpus.kind.build, config))
    parameters = sum(parameter.numel() for parameter in built.parameters())
    weights, gradients = weight_bytes(parameters, recipe.train, machine, world)
    if weights + gradients > room.left:
        raise ConfigError(
            f"a model of {parameters / 1e6:,.1f} M parameters takes about "
            f"{_gb(weights + gradients)} to train (weights, gradients, optimiser), and "
            f"{_gb(room.left)} are left of {room.of}; take a smaller one"
            + (", or set train.sharded" if world.size > 1 and not recipe.train.sharded else "")
        )
    lengths = corpus.lengths
    taken, row = max(_at_longest(recipe, lengths, machine, world))
    if weights + taken <= room.left:  # gradients come as what is kept for them goes
        return
    several = "raise train.accumulate, " if world.size > 1 else ""
    raise DataError(
        f"{corpus.origin(row)}: to train on {corpus.extent(row)} takes about "
        f"{_gb(weights + taken)}, and {_gb(room.left)} are left of {room.of}; {several}lower "
        f"{corpus.bound}, or take a smaller model"
    )


def _at_longest(
    recipe: Recipe, lengths: np.ndarray, machine: Machine, world: World
) -> Iterator[tuple[int, int]]:
    """Yield bytes and row of the longest rows: by source, by target, and by both together."""
    train = recipe.train
    for size in (*lengths.T, lengths.sum(axis=1)):
        row = int(size.argmax())
        rows = 1
        if world.size > 1:
            batch = min(len(lengths), train.batch_tokens // int(lengths[row].max()))
            rows = max(1, batch // (train.accumulate * world.size))
        shape = shape_of(rows, lengths[row])
        yield batch_bytes(recipe.model, shape, machine, recompute=train.recompute), row


def shape_of(rows: int, lengths: np.ndarray) -> Shape:
    """Return the shape of `rows` rows with these lengths: of source and target, or of a text."""
    return Shape(rows, sum(map(int, lengths[:-1])), int(lengths[-1]))


def peak_memory(device: torch.device) -> int:
    """The most memory this process has held so far, in bytes: on the GPU, or resident."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = PROC / "self/status"
    if status.exists():  # getrusage would count what the process that started this one has held
        return _kilobytes(status)["VmHWM"]
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def memory_room(device: torch.device, processes: int) -> Room | None:
    """Return the memory that this process may still take; None if the system does not say.

    On a CPU it is the smallest remainder of three limits: the address space (RLIMIT_AS), the
    control group's memory and the machine's memory. Swap does not count: an update that waits for a
    disk takes minutes. Memory that other processes hold is not subtracted, as they may have
    released it by then.

    Args:
        device: Device of the run.
        processes: Number of processes that share the machine.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return Room(free + unused, "the GPU's memory")
    if device.type != "cpu" or not sys.platform.startswith("linux"):
        return None
    status = _kilobytes(PROC / "self/status")
    shared = [Room(limit, "its control group's memory") for limit in _cgroup_limits()]
    total = _kilobytes(PROC / "meminfo").get("MemTotal")
    if total is not None:
        shared.append(Room(total, "the machine's memory"))
    held = status["RssAnon"] + status["RssShmem"]  # the pages of files can be taken back
    rooms = [room._replace(left=room.left // processes - held) for room in shared]
    address_space = _address_space()
    if address_space is not None:
        rooms.append(
            Room(address_space - status["VmSize"], "this process's address space (ulimit -v)")
        )
    return min(rooms, default=None)


def _address_space() -> int | None:
    """The bytes of addresses that this process may have, or None without a bound."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def _cgroup_limits() -> Iterator[int]:
    """The bounds, in bytes, of the control groups that this process is in, of both versions."""
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
        for group in (place, *place.parents):  # what bounds one above bounds this one
            if group.is_relative_to(root) and (group / file).is_file():
                found = (group / file).read_text().strip()
                if found.isdigit():  # otherwise it says "max"
                    yield int(found)


def _kilobytes(path: Path) -> dict[str, int]:
    """The lines `NAME: NUMBER kB` of a file of the system's, in bytes."""
    fields = [line.split() for line in path.read_text().splitlines()]
    return {each[0].rstrip(":"): 1024 * int(each[1]) for each in fields if each[2:] == ["kB"]}


def _gb(count: int) -> str:
    return f"{max(0, count) / 1e9:.1f} GB"
