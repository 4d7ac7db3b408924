from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from crosshead.errors import ConfigError
from crosshead.system import devices
from crosshead.system.devices import choose_device, choose_threads, instruction_sets, saturates_int8
from crosshead.tasks.loading import load

STORED = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "", "meta", "cpu:x", "\udc80"])
def test_a_device_that_is_not_there_is_one_line(name: str) -> None:
    with pytest.raises(ConfigError, match=r"no device .* use auto or one of: cpu") as caught:
        choose_device(name)
    offered = str(caught.value).rpartition(": ")[2].split(", ")
    assert [str(choose_device(each)) for each in offered] == offered


@pytest.mark.parametrize("name", ["cpu", "auto"])
def test_attention_on_a_gpu_does_not_plan_each_shape(name: str) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)  # PyTorch's default
    choose_device(name)
    assert not torch.backends.cuda.cudnn_sdp_enabled()


@pytest.fixture
def threads() -> Iterator[None]:
    """Puts the number of threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_threads_are_those_asked_for_or_all_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    load(STORED, "cpu", threads=2)
    assert torch.get_num_threads() == 2
    load(STORED, "cpu")
    assert torch.get_num_threads() == 2
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 3, 4}, raising=False)
    load(STORED, "cpu", threads=0)
    assert torch.get_num_threads() == 3
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert choose_threads(0) == 4 == torch.get_num_threads()


@pytest.mark.parametrize("number", [-1, 1025, 2**64])
def test_a_number_of_threads_that_cannot_be_is_one_line(number: int) -> None:
    with pytest.raises(ConfigError, match=f"from 1 to 1024, or 0 for all cores, found {number}"):
        load(STORED, "cpu", threads=number)


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
    monkeypatch.setattr(devices, "CPUINFO", tmp_path / "cpuinfo")
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
