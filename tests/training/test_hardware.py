import pytest
import torch

from crosshead.training import hardware
from crosshead.training.hardware import (
    MatrixRates,
    choose_precision,
    matrix_rates,
)

CPU = torch.device("cpu")


def test_precision_is_as_asked() -> None:
    assert choose_precision("float32", CPU) == (torch.float32, "as the recipe says")
    assert choose_precision("bfloat16", CPU) == (torch.bfloat16, "as the recipe says")


@pytest.mark.parametrize(
    ("bfloat16", "expected"),
    [(500.0, torch.bfloat16), (100.0, torch.float32), (20.0, torch.float32)],
)
def test_auto_takes_the_faster_precision(
    bfloat16: float, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "matrix_rates", lambda *where: MatrixRates(100.0, bfloat16))
    dtype, why = choose_precision("auto", CPU)
    assert dtype == expected
    assert "100" in why and f"{bfloat16:.0f}" in why


def test_rates_are_measured() -> None:
    rates = matrix_rates(CPU, 1, seconds=0.01)
    assert rates.float32 > 0 and rates.bfloat16 > 0
    assert matrix_rates(CPU, 1, seconds=0.01) is rates


def test_a_machine_with_slow_products_is_measured_with_few_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A product of 64 rows takes 0.05 s here, so that one of 4,096 would take 3.2 s."""
    now, rows = [0.0], []

    class Slow:
        def __init__(self, length: int) -> None:
            self.length = length

        def __len__(self) -> int:
            return self.length

        def __getitem__(self, part: slice) -> "Slow":
            return Slow(part.stop)

        def __matmul__(self, other: object) -> None:
            rows.append(self.length)
            now[0] += self.length * 0.05 / 64

        def to(self, dtype: torch.dtype) -> "Slow":
            return self

    monkeypatch.setattr(torch, "randn", lambda length, *rest, device: Slow(length))
    monkeypatch.setattr(hardware.time, "perf_counter", lambda: now[0])
    found = matrix_rates(CPU, 3, seconds=0.1)
    assert set(rows) == {64} and now[0] < 1
    assert found.float32 == pytest.approx(2 * 512 * 512 / (0.05 / 64) / 1e9)
