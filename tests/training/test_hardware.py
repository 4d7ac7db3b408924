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
    monkeypatch.setattr(hardware, "matrix_rates", lambda device: MatrixRates(100.0, bfloat16))
    dtype, why = choose_precision("auto", CPU)
    assert dtype == expected
    assert "100" in why and f"{bfloat16:.0f}" in why


def test_rates_are_measured() -> None:
    rates = matrix_rates(CPU, seconds=0.01)
    assert rates.float32 > 0 and rates.bfloat16 > 0


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
