from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from crosshead.errors import ConfigError
from crosshead.system.devices import choose_device, choose_threads
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
