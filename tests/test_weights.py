import json
from pathlib import Path

import pytest
import safetensors.torch
import torch

from crosshead.errors import DamagedBundle
from crosshead.weights import TENSORS_SHA256, TensorFile, described, serialized, tensors_sha256


def a_file(tensors: dict[str, torch.Tensor], **metadata: str) -> TensorFile:
    data = safetensors.torch.save(tensors, metadata or None)
    return TensorFile(memoryview(data), Path("model.safetensors"))


def test_a_file_gives_the_tensors_that_were_saved() -> None:
    tensors = {
        "b": torch.randn(3, 5), "a": torch.randn(2), "none": torch.empty(0, 4),
        "one": torch.tensor(1.5),
    }  # fmt: skip
    file = a_file(tensors, format="pt")
    assert file.metadata == {"format": "pt"}
    assert file.tensors == described(tensors.items())
    for name, tensor in tensors.items():
        assert torch.equal(file.tensor(name), tensor)
    assert a_file({}).tensors == {}


def test_a_tensor_may_begin_at_any_byte() -> None:
    data = safetensors.torch.save({"a": torch.arange(6.0)})
    for shift in range(1, 5):
        view = memoryview(bytes(shift) + data)[shift:]
        assert torch.equal(TensorFile(view, Path("x")).tensor("a"), torch.arange(6.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_other_types_are_known(dtype: torch.dtype) -> None:
    assert a_file({"a": torch.ones(3, dtype=dtype)}).tensors["a"].dtype == dtype


def test_what_is_no_whole_file_is_damaged() -> None:
    data = safetensors.torch.save({"a": torch.zeros(4), "b": torch.zeros(4)})
    header = json.loads(data[8 : 8 + data[0]])
    assert header["b"]["data_offsets"] == [16, 32]
    for wrong in (data[:-1], data + b"x", b"", data.replace(b"[16,32]", b"[12,28]")):
        with pytest.raises(DamagedBundle, match=r"m\.safetensors: truncated or damaged"):
            TensorFile(memoryview(wrong), Path("m.safetensors"))


def test_the_checksum_is_of_names_shapes_and_numbers() -> None:
    whole = {"a": torch.zeros(2, 3), "b": torch.ones(2)}
    others = [
        {"a": torch.zeros(2, 3), "c": torch.ones(2)},
        {"a": torch.zeros(3, 2), "b": torch.ones(2)},
        {"a": torch.zeros(2, 3), "b": torch.tensor([1.0, 2.0])},
    ]
    same = dict(reversed(whole.items()))
    assert tensors_sha256(same) == tensors_sha256(whole)
    assert len({tensors_sha256(each) for each in (whole, *others)}) == 4


def test_what_is_serialized_is_read_by_others_and_always_the_same() -> None:
    tensors = {"b": torch.randn(3, 5), "a": torch.randn(2)}
    data = serialized(tensors, "0" * 64)
    assert {serialized(tensors, "0" * 64) for _ in range(20)} == {data}
    theirs = safetensors.torch.load(data)
    assert all(torch.equal(theirs[name], tensor) for name, tensor in tensors.items())
    file = TensorFile(memoryview(data), Path("x"))
    assert file.metadata == {"format": "pt", TENSORS_SHA256: "0" * 64}
    assert all(torch.equal(file.tensor(name), tensor) for name, tensor in tensors.items())
