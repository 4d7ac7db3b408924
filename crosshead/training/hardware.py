"""Properties of this machine: device, threads, best precision, speed of matrix products."""

import contextlib
import inspect
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from crosshead.caller import setting
from crosshead.errors import ConfigError, UserError
from crosshead.recipe.train import TrainConfig
from crosshead.system.devices import available_cores, choose_threads, hold_kernels
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
    return Machine(device, threads, dtype, why)


@contextlib.contextmanager
def naming_added_modules(model: nn.Module, machine: Machine) -> Iterator[None]:
    """Raise `UserError` if modules of other packages do not compute in the precision."""
    try:
        yield
    except RuntimeError as error:
        names = " or ".join(sorted(set(_added(model))))
        if not names or machine.dtype == torch.float32 or not _OF_TYPES.search(str(error)):
            raise
        raise UserError(
            f"{names} does not compute in {machine.precision} ({str(error).splitlines()[0]}): it "
            "has to make its tensors in the type of its arguments or weights, and return them in "
            f"that type; change it, or use float32 ({setting('train.precision', has_flag=True)})"
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
