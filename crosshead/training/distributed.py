"""Several processes that train one model, by PyTorch's own engines, started by torchrun.

Every process computes its share of the parts of each batch. Either each holds the model and makes
the same step with the sum of all gradients (`torch.nn.parallel.DistributedDataParallel`), or each
holds a share of every weight and makes the step of that (`torch.distributed.fsdp.fully_shard`).
The first one alone decides, validates and writes.
"""

import contextlib
import os
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor

from crosshead.errors import ConfigError, UserError
from crosshead.models.base import Model
from crosshead.system.devices import choose_device
from crosshead.system.progress import counted

if TYPE_CHECKING:
    # What shares weights out takes most of a second to import: only who asks for that waits.
    from torch.distributed.tensor import DTensor

_LONGEST_WORD = 256
"""Bytes that the first process says at once."""

_PATIENCE = timedelta(days=1)
"""Longest time that processes wait for each other. The first process alone tokenizes the text and
validates, which takes hours for much text. A process that dies is noticed sooner: its connections
break, and torchrun ends the others."""

_GONE = ("gloo", "Connection closed", "Connection reset", "Broken pipe")
"""Words in gloo's plain errors that mean that the other process is gone."""


@dataclass(frozen=True)
class World:
    """The processes of a run, and which of them this is."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """The rank among the processes of this machine."""
    local_size: int = 1

    @property
    def is_first(self) -> bool:
        """True in the main process, which decides, validates and writes."""
        return self.rank == 0

    def device(self, name: str) -> torch.device:
        """The device of that name; of several GPUs, `auto` and `cuda` are this process's own.

        Raises `ConfigError` where processes of one machine would have to share a GPU.
        """
        own = name in ("auto", "cuda")
        if self.size == 1 or not torch.cuda.is_available() or not (own or name.startswith("cuda:")):
            return choose_device(name)
        if self.local_size > 1 and not own:
            raise ConfigError(
                f"is {name}, one GPU for {self.local_size} processes; with auto each has its own",
                key="train.device",
            )
        if self.local_size > torch.cuda.device_count():
            raise ConfigError(
                f"{self.local_size} processes of this machine would share "
                f"{counted(torch.cuda.device_count(), 'GPU')}; start one a GPU (torchrun "
                "--nproc-per-node gpu), or set train.device = cpu"
            )
        device = choose_device(f"cuda:{self.local_rank}" if own else name)
        torch.cuda.set_device(device)
        return device

    def total(self, values: Tensor) -> Tensor:
        """The sum of what all processes give."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def any(self, says: bool) -> bool:
        """Return whether at least one of all processes says so."""
        return bool(self.total(torch.tensor(int(says))))

    def broadcast(self, word: str) -> str:
        """Return the main process's word in all processes."""
        if self.size == 1:
            return word
        padded = word.encode()[:_LONGEST_WORD].ljust(_LONGEST_WORD, b"\0")
        letters = torch.tensor(list(padded), dtype=torch.uint8)
        dist.broadcast(letters, src=0)
        return bytes(letters.tolist()).rstrip(b"\0").decode(errors="replace")


ALONE = World()
"""The world of a run with one process."""


@contextlib.contextmanager
def joined() -> Iterator[World]:
    """A block in which this process is one of those that torchrun has started, if it has.

    What is on GPUs they send by NCCL, all else by gloo, whatever device the run then takes. Raises
    `ConfigError` where what torchrun says in the environment cannot be, and `UserError` where
    another process is lost, wherever in the block that comes out.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield ALONE
        return
    try:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        rank, size, local_rank, local_size = (int(os.environ[name]) for name in names)
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"RANK is set, so torchrun seems to have started this, but not as it does: {error}"
        ) from None
    if size == 1:
        yield ALONE
        return
    try:
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, timeout=_PATIENCE)
        yield World(rank, size, local_rank, local_size)
    except BaseException as error:
        _let_go(error)
        if not isinstance(error, RuntimeError) or not _is_loss(error):
            raise
        raise UserError(
            f"process {rank} of the run has lost another one; what that one or torchrun prints "
            "says why"
        ) from None
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _let_go(error: BaseException | None) -> None:
    """Free what the frames of an error hold, a `DistributedDataParallel` perhaps.

    Were that the last to hold the group of processes, its end would wait, with Python's lock, for a
    thread that may be waiting for the lock.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _is_loss(error: RuntimeError) -> bool:
    """Return whether an error means that another process is gone, not that this one failed."""
    return isinstance(error, dist.DistError) or any(words in str(error) for words in _GONE)


def shard(model: Model) -> None:
    """Leave to each process its share of every weight: as many rows of each as any other, or fewer.

    Weights become `DTensor`s. What computes, a layer or the whole, is given its weights for as long
    as it does, and its gradients are averaged and dealt out as soon as they are there: that is
    FSDP2, after Zhao et al. 2023, "PyTorch FSDP". All processes have to have drawn the same
    weights, and to compute equally many batches, by `model.features`.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    # It is about outputs that are changed in place: keys and values are not.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)
    # Left to itself it would take a GPU, if there is one, for a model in main memory too.
    mesh = init_device_mesh(next(model.parameters()).device.type, (dist.get_world_size(),))
    for layer in (*model.called_alone(), *model.layers()):
        fully_shard(layer, mesh=mesh)
    # Embeddings and output projection: whole from `features` to the gradients.
    fully_shard(model, mesh=mesh)
    register_fsdp_forward_method(model, "features")


def _is_shared(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Return whether this is a `DTensor`, whose shares lie on several processes."""
    return hasattr(tensor, "placements")


def of_all(tensor: Tensor) -> Tensor:
    """The whole of a tensor, or of a sum, that processes share; all of them have to ask."""
    return tensor.full_tensor() if _is_shared(tensor) else tensor


def gathered(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, those that processes share put together in the first one's memory (of the CPU).

    All have to call this, with the same names. The others get only what is not shared: no device,
    and no machine twice, has to hold a whole model with its moments.
    """
    found = {}
    for name in sorted(tensors):  # the same order in all, whatever files they were read from
        tensor = tensors[name]
        if not _is_shared(tensor):
            found[name] = tensor
            continue
        whole = tensor.full_tensor()
        if dist.get_rank() == 0:
            found[name] = whole.cpu()
    return found


def like(model: Tensor, whole: Tensor) -> Tensor:
    """`whole`, or this process's share of it where `model` is shared and of that shape."""
    if not _is_shared(model) or whole.shape != model.shape:
        return whole
    from torch.distributed.tensor import distribute_tensor

    # Every process has read the whole: there is nothing to send.
    return distribute_tensor(
        whole.to(model.device), model.device_mesh, model.placements, src_data_rank=None
    )
