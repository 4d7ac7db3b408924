from pathlib import Path

import pytest

from crosshead.system import processor
from crosshead.system.processor import instruction_sets, saturates_int8

AMD = """\
processor\t: 0
vendor_id\t: AuthenticAMD
flags\t\t: fpu sse2 avx2 {}

processor\t: 1
vendor_id\t: AuthenticAMD
flags\t\t: fpu sse2 avx2 amx_bf16
"""


INTEL = AMD.replace("AuthenticAMD", "GenuineIntel")


ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd sve bf16 i8mm\n"


@pytest.fixture
def describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that describes the processors; a test may write it."""
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            AMD.format("avx512f avx512_bf16 amx_tile"),
            ["avx2", "avx512f", "avx512_bf16", "amx_tile"],
        ),
        (ARM, ["asimd", "bf16", "sve"]),
        ("processor\t: 0\n", []),
    ],
)
def test_instruction_sets_are_those_of_the_first_processor(
    text: str, expected: list[str], describe: Path
) -> None:
    describe.write_text(text)
    assert instruction_sets() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AMD.format(""), True),
        (AMD.format("avx512_vnni"), False),
        (AMD.format("avx_vnni"), False),
        (INTEL.format(""), False),
        (ARM, False),
    ],
)
def test_bytes_overflow_without_their_dot_products(
    text: str, expected: bool, describe: Path
) -> None:
    describe.write_text(text)
    assert saturates_int8() is expected


def test_a_system_that_does_not_tell(describe: Path) -> None:
    assert instruction_sets() == [] and not saturates_int8()
