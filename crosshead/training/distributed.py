"""Several processes that train one model, by PyTorch's own engine, started by torchrun.

Every process holds the model, computes its share of the parts of each batch, and makes the same
step with the sum of all gradients (`torch.nn.parallel.DistributedDataParallel`). The first one
alone decides, validates and writes.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from crosshead.devices import choose_device
from crosshead.errors import ConfigError, UserError

_LONGEST_WORD = 256
"""Bytes that the first process says at once."""


@dataclass(frozen=True)
class World:
    """The processes of a run, and which of them this is."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Which of those on this machine."""
    local_size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the one that decides, validates and writes."""
        return self.rank == 0

    def device(self, name: str) -> torch.device:
        """The device of that name; of several GPUs, `auto` and `cuda` are this process's own."""
        if self.size > 1 and name in ("auto", "cuda") and torch.cuda.is_available():
            name = f"cuda:{self.local_rank}"
        return choose_device(name)

    def total(self, values: Tensor) -> Tensor:
        """The sum of what all processes give."""
        if self.size > 1:
            with _named_failure():
                dist.all_reduce(values)
        return values

    def agreed(self, word: str, device: torch.device) -> str:
        """What the first process says, in a clause."""
        if self.size == 1:
            return word
        padded = word.encode()[:_LONGEST_WORD].ljust(_LONGEST_WORD, b"\0")
        letters = torch.tensor(list(padded), dtype=torch.uint8, device=device)
        with _named_failure():
            dist.broadcast(letters, src=0)
        return bytes(letters.tolist()).rstrip(b"\0").decode(errors="replace")

    def wait(self) -> None:
        """Go on when all processes have come here."""
        if self.size > 1:
            with _named_failure():
                dist.barrier()


ALONE = World()
"""The one process of most runs."""


@contextlib.contextmanager
def joined() -> Iterator[World]:
    """A block in which this process is one of those that torchrun has started, if it has.

    They talk by NCCL where there are GPUs, and by gloo elsewhere. Raises `ConfigError` where what
    torchrun says in the environment cannot be.
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
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield World(rank, size, local_rank, local_size)
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def _named_failure() -> Iterator[None]:
    """Say in one line that another process is gone."""
    try:
        yield
    except RuntimeError as error:  # that is how the backends say it
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"process {os.environ['RANK']} of the run has lost another one ({reason}); "
            "what torchrun prints names the one that failed first"
        ) from None
