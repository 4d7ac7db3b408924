import hashlib
import io
import json
from pathlib import Path

import pytest
import safetensors.torch
import torch

from crosshead.bundle.weights import (
    TensorFile,
    check_storable,
    serialized,
    tensor_specs,
    tensors_sha256,
)
from crosshead.errors import ConfigError, DamagedBundle


def opened(data: bytes) -> TensorFile:
    return TensorFile(io.BytesIO(data), len(data), Path("m.safetensors"))


def a_file(tensors: dict[str, torch.Tensor], **metadata: str) -> TensorFile:
    return opened(safetensors.torch.save(tensors, metadata or None))


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)


def test_a_file_gives_the_tensors_that_were_saved() -> None:
    tensors = {
        "b": torch.randn(3, 5), "a": torch.randn(2), "none": torch.empty(0, 4),
        "one": torch.tensor(1.5),
    }  # fmt: skip
    file = a_file(tensors, format="pt")
    assert file.metadata == {"format": "pt"}
    assert file.tensors == tensor_specs(tensors.items())
    assert_same(file.read()[0], tensors)
    assert a_file({}).tensors == a_file({}).read()[0] == {}


def test_the_checksum_of_a_file_is_that_of_all_its_bytes() -> None:
    data = safetensors.torch.save({"b": torch.randn(3, 5), "a": torch.randn(2)})
    assert opened(data).read()[1] == hashlib.sha256(data).hexdigest()


def test_a_file_that_is_cut_while_it_is_read_is_damaged() -> None:
    stream = io.BytesIO(safetensors.torch.save({"a": torch.zeros(4)}))
    file = TensorFile(stream, len(stream.getvalue()), Path("m.safetensors"))
    stream.truncate(len(stream.getvalue()) - 1)
    with pytest.raises(DamagedBundle, match=r"m\.safetensors: truncated or damaged"):
        file.read()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_other_types_are_known(dtype: torch.dtype) -> None:
    tensors = {"a": torch.ones(3, dtype=dtype), "b": torch.ones((), dtype=dtype)}
    assert_same(a_file(tensors).read()[0], tensors)


def test_what_is_no_whole_file_is_damaged() -> None:
    data = safetensors.torch.save({"a": torch.zeros(4), "b": torch.zeros(4)})
    header = json.loads(data[8 : 8 + data[0]])
    assert header["b"]["data_offsets"] == [16, 32]
    for wrong in (data[:-1], data + b"x", b"", data.replace(b"[16,32]", b"[12,28]")):
        with pytest.raises(DamagedBundle, match=r"m\.safetensors: truncated or damaged"):
            opened(wrong)


def test_the_checksum_is_of_names_shapes_and_numbers() -> None:
    whole = {"a": torch.zeros(2, 3), "b": torch.ones(2)}
    others = [
        {"a": torch.zeros(2, 3), "c": torch.ones(2)},
        {"a": torch.zeros(3, 2), "b": torch.ones(2)},
        {"a": torch.zeros(2, 3, dtype=torch.int32), "b": torch.ones(2)},
        {"a": torch.zeros(2, 3), "b": torch.tensor([1.0, 2.0])},
    ]
    same = dict(reversed(whole.items()))
    assert tensors_sha256(same) == tensors_sha256(whole)
    assert len({tensors_sha256(each) for each in (whole, *others)}) == 5


def test_what_is_serialized_is_read_by_others_and_always_the_same() -> None:
    tensors = {"b": torch.randn(3, 5), "a": torch.randn(2)}
    said = "format", "of mine"
    data = serialized(tensors, said)
    assert {serialized(dict(reversed(tensors.items())), said) for _ in range(20)} == {data}
    assert_same(safetensors.torch.load(data), tensors)
    file = opened(data)
    assert file.metadata == dict([said])
    assert_same(file.read()[0], tensors)


def test_a_model_whose_state_is_more_than_parameters_is_refused() -> None:
    """Batch norm keeps running means in buffers, which no bundle stores."""
    tied = torch.nn.Linear(3, 3)
    plain = torch.nn.Sequential(tied, tied, torch.nn.GroupNorm(1, 3))
    plain.register_buffer("table", torch.zeros(2), persistent=False)
    check_storable(plain, "mine")
    plain.append(torch.nn.BatchNorm1d(3))
    with pytest.raises(ConfigError, match=r"architecture 'mine': 3\.running_mean is a buffer"):
        check_storable(plain, "mine")
