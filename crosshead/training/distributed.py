"""Training of one model in several processes, by PyTorch's own engines, started by torchrun.

Every process computes its share of the microbatches of each batch. In data-parallel training
(`torch.nn.parallel.DistributedDataParallel`), each process holds the whole model and makes the same
step with the gradients of all processes. In sharded training
(`torch.distributed.fsdp.fully_shard`), each process holds and updates a shard of every weight. Only
the main process decides, validates and writes.
"""

import contextlib
import json
import os
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor

from crosshead.errors import ConfigError, UserError
from crosshead.models.base import Model, TokenModel
from crosshead.system.devices import choose_device

if TYPE_CHECKING:
    # This import takes most of a second, so only sharded training pays for it.
    from torch.distributed.tensor import DTensor

_LONGEST_MESSAGE = 1024
"""Size of a broadcast message in bytes."""

_TIMEOUT = timedelta(days=1)
"""Longest time that processes wait for each other. Only the main process prepares the data and
validates, which takes hours for much data. A process that dies is noticed sooner: its connections
break, and torchrun ends the remaining processes."""

_CONNECTION_LOST = ("gloo", "Connection closed", "Connection reset", "Broken pipe")
"""Words in gloo's error messages that mean that the other process is gone."""


@dataclass(frozen=True)
class World:
    """The processes of a run, and the rank of this process among them."""

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
        """Return the device of this process."""
        own = name in ("auto", "cuda")
        if self.size == 1 or not torch.cuda.is_available() or not (own or name.startswith("cuda:")):
            return choose_device(name)
        if self.local_size > 1 and not own:
            raise ConfigError(
                f"is {name}, one GPU for {self.local_size} processes; with auto each has its own",
                key="train.device",
            )
        device = choose_device(f"cuda:{self.local_rank}" if own else name)
        torch.cuda.set_device(device)
        return device

    def total(self, values: Tensor) -> Tensor:
        """Return the sum of `values` over all processes; `values` may be changed in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def any(self, says: bool) -> bool:
        """Return True if `says` is true in at least one process."""
        return bool(self.total(torch.tensor(int(says))))

    def broadcast(self, message: Any = None) -> Any:
        """Return the message of the main process, a value of JSON, in all processes."""
        if self.size == 1:
            return message
        padded = json.dumps(message).encode().ljust(_LONGEST_MESSAGE)
        letters = torch.tensor(list(padded), dtype=torch.uint8)
        dist.broadcast(letters, src=0)
        return json.loads(bytes(letters.tolist()))


ALONE = World()
"""The world of a run with one process."""


@contextlib.contextmanager
def joined_process_group() -> Iterator[World]:
    """Join the process group of torchrun for a block, if torchrun started this process.

    GPU tensors are sent by NCCL and CPU tensors by gloo.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield ALONE
        return
    try:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        rank, size, local_rank, local_size = (int(os.environ[name]) for name in names)
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"RANK is set, but the other variables of torchrun are missing or invalid: {error}; "
            "start the run with torchrun, or unset RANK"
        ) from None
    if size == 1:
        yield ALONE
        return
    try:
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, timeout=_TIMEOUT)
        yield World(rank, size, local_rank, local_size)
    except BaseException as error:
        _clear_frames(error)
        if not isinstance(error, RuntimeError) or not _is_lost_connection(error):
            raise
        raise UserError(
            f"process {rank} of the run: another process died; see its output or torchrun's"
        ) from None
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _clear_frames(error: BaseException | None) -> None:
    """Clear the stack frames of an error, which may hold a `DistributedDataParallel`.

    If that object held the last reference to the process group, its destructor would hold Python's
    global lock and wait for a thread that may be waiting for the lock.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _is_lost_connection(error: RuntimeError) -> bool:
    """Return True if an error means that another process is gone, not that this one failed."""
    return isinstance(error, dist.DistError) or any(
        words in str(error) for words in _CONNECTION_LOST
    )


def shard(model: Model) -> None:
    """Shard every weight over the processes, by rows (FSDP2).

    Weights become `DTensor`s. A module gets its whole weights while it computes. Its gradients are
    averaged and scattered as soon as they exist. All processes must have drawn the same initial
    weights, and must compute the same number of batches through `model.features`.

    Reference:
        Zhao et al. 2023, "PyTorch FSDP".
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    # The warning concerns outputs that are changed in place; keys and values never are.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)
    # By default the mesh would use a GPU, if there is one, even for a model on the CPU.
    mesh = init_device_mesh(next(model.parameters()).device.type, (dist.get_world_size(),))
    for layer in (*model.called_alone(), *model.layers()):
        fully_shard(layer, mesh=mesh)
    # Embeddings and output projection stay whole from `features` to the gradients.
    fully_shard(model, mesh=mesh)
    if isinstance(model, TokenModel):  # its loss calls `features`; other losses call the model
        register_fsdp_forward_method(model, "features")


def _is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Return True for a `DTensor`, which is sharded over several processes."""
    return hasattr(tensor, "placements")


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the whole of a sharded tensor or sum; all processes must call this."""
    return tensor.full_tensor() if _is_sharded(tensor) else tensor


def gather(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors, with sharded tensors gathered on the CPU of the main process.

    All processes must call this with the same names. The workers get only the tensors that are not
    sharded. So no device has to hold a whole model with its moments, and no machine holds it twice.
    """
    found = {}
    for name in sorted(tensors):  # the same order in all processes
        tensor = tensors[name]
        if not _is_sharded(tensor):
            found[name] = tensor
            continue
        whole = tensor.full_tensor()
        if dist.get_rank() == 0:
            found[name] = whole.cpu()
    return found


def shard_like(model: Tensor, whole: Tensor) -> Tensor:
    """Return `whole`, or this process's shard of it if `model` is sharded and has its shape."""
    if not _is_sharded(model) or whole.shape != model.shape:
        return whole
    from torch.distributed.tensor import distribute_tensor

    # Every process has read the whole tensor, so nothing has to be sent.
    return distribute_tensor(
        whole.to(model.device), model.device_mesh, model.placements, src_data_rank=None
    )
