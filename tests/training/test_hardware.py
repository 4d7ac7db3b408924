from pathlib import Path

import pytest
import torch

from crosshead.training import hardware
from crosshead.training.hardware import (
    MatrixRates,
    choose_precision,
    instruction_sets,
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


X86 = """\
processor\t: 0
flags\t\t: fpu sse2 avx2 avx512f avx512_bf16 amx_tile

processor\t: 1
flags\t\t: fpu sse2 avx2 amx_bf16
"""
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd sve bf16 i8mm\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (X86, ["avx2", "avx512f", "avx512_bf16", "amx_tile"]),
        (ARM, ["asimd", "bf16", "sve"]),
        ("processor\t: 0\n", []),
    ],
)
def test_instruction_sets_are_those_of_the_first_processor(
    text: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(hardware, "CPUINFO", tmp_path / "cpuinfo")
    assert instruction_sets() == expected


def test_a_system_that_does_not_tell_has_no_known_instruction_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "CPUINFO", tmp_path / "absent")
    assert instruction_sets() == []
