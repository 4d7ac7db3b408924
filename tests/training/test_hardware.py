import os
from collections.abc import Iterator

import pytest
import torch

from crosshead.training import hardware
from crosshead.training.hardware import (
    UNITS,
    MatrixRates,
    choose_precision,
    choose_threads,
    instruction_sets,
    matrix_rates,
)

CPU = torch.device("cpu")


@pytest.fixture
def threads() -> Iterator[None]:
    """Puts the number of threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_threads_are_those_asked_for_or_all_there_are() -> None:
    assert choose_threads(2) == 2
    assert torch.get_num_threads() == 2
    assert choose_threads(0) == len(os.sched_getaffinity(0)) == torch.get_num_threads()


def test_precision_is_as_asked() -> None:
    assert choose_precision("float32", CPU) == (torch.float32, "as asked")
    assert choose_precision("bfloat16", CPU) == (torch.bfloat16, "as asked")


@pytest.mark.parametrize(
    ("bfloat16", "expected"),
    [(500.0, torch.bfloat16), (100.0, torch.float32), (20.0, torch.float32)],
)
def test_auto_takes_the_faster_precision(
    bfloat16: float, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "matrix_rates", lambda device: MatrixRates(100.0, bfloat16))
    dtype, why = choose_precision("auto", CPU)
    assert dtype == expected
    assert "100" in why and f"{bfloat16:.0f}" in why


def test_rates_are_measured() -> None:
    rates = matrix_rates(CPU, seconds=0.01)
    assert rates.float32 > 0 and rates.bfloat16 > 0


def test_instruction_sets_are_known_ones() -> None:
    found = instruction_sets()
    assert set(found) <= set(UNITS) and len(found) == len(set(found))
