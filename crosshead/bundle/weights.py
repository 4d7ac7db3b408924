"""Weights of models, and safetensors files of them.

The header of a file lists its tensors. They are compared with the tensors of the configuration
before a model is built and before any tensor is read.
"""

import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import safetensors.torch
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from crosshead.errors import ConfigError, DamagedBundle
from crosshead.models.base import Model
from crosshead.system.stored import LARGEST_HEADER

M = TypeVar("M", bound=torch.nn.Module)

_TYPES = {
    "F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
"""The tensor types that a header may name, a part of the types of safetensors."""


class TensorSpec(NamedTuple):
    """The shape and type of a tensor, without its numbers."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class _SkipNormalDraws(TorchFunctionMode):
    """A mode that skips drawing normally distributed numbers.

    Tensors without memory have no numbers, but PyTorch would import its compiler to draw them,
    which takes a second. The same happens for computations with such tensors, as in weight
    normalisation.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return a tensor unchanged instead of drawing its numbers; call any other function."""
        kwargs = kwargs or {}
        if func in (Tensor.normal_, torch.nn.init.normal_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def build_without_memory(build: Callable[[], M]) -> M:
    """Build a model on the meta device, which has shapes but no memory for numbers."""
    with torch.device("meta"), _SkipNormalDraws():
        return build()


def tensor_specs(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, TensorSpec]:
    """Return the shapes and types of named tensors."""
    return {name: TensorSpec(tuple(each.shape), each.dtype) for name, each in tensors}


def weights_of(model: torch.nn.Module) -> dict[str, Tensor]:
    """Return the model's parameters by name, in float32 on the CPU.

    A tied parameter occurs once.
    """
    return {
        name: parameter.detach().to("cpu", torch.float32).contiguous()
        for name, parameter in model.named_parameters()
    }


def check_storable(model: torch.nn.Module, name: str) -> None:
    """Check that a bundle can hold a model: that its state is parameters alone."""
    parameters = {each for each, _ in model.named_parameters(remove_duplicate=False)}
    others = [each for each in model.state_dict() if each not in parameters]
    if others:
        raise ConfigError(
            f"architecture {name!r}: {others[0]} is a buffer, which bundles do not store; make it "
            "a parameter or register it with persistent=False, and use group norm or layer norm in "
            "place of batch norm"
        )


def check_weights(model: torch.nn.Module, weights: dict[str, Tensor], where: Path | str) -> None:
    """Check that weights match the parameters of a model in name, shape and type."""
    check_specs(tensor_specs(model.named_parameters()), tensor_specs(weights.items()), where)


def check_specs(
    expected: Mapping[str, TensorSpec], found: Mapping[str, TensorSpec], where: Path | str
) -> None:
    """Check that tensors have the expected names and shapes, and are float32."""
    for name in sorted(expected.keys() | found.keys()):
        shown = f"tensor {name[:200]!a}"
        if name not in found:
            raise DamagedBundle(where, f"{shown} is missing")
        if name not in expected:
            raise DamagedBundle(where, f"unexpected {shown}")
        if found[name].shape != expected[name].shape:
            shapes = f"{_listed(found[name])}, expected {_listed(expected[name])}"
            raise DamagedBundle(where, f"{shown} has shape {shapes}")
        if found[name].dtype != torch.float32:
            dtype = str(found[name].dtype).removeprefix("torch.")
            raise DamagedBundle(where, f"{shown} is {dtype}, expected float32")


def set_weights(
    model: torch.nn.Module, weights: dict[str, Tensor], where: Path | str = "weights"
) -> None:
    """Copy named weights into the parameters of a model."""
    check_weights(model, weights, where)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


class TensorFile:
    """An open safetensors file: its header, and then its tensors."""

    def __init__(self, file: io.BufferedIOBase, size: int, path: Path) -> None:
        """Read the header."""
        self._file, self._size, self._path = file, size, path
        self._head = file.read(8)
        length = int.from_bytes(self._head, "little")
        if length > LARGEST_HEADER:
            raise self._damaged("its header is too long")
        text = file.read(length)
        self._head += text
        try:
            header = json.loads(text.decode(), object_pairs_hook=_without_repetition)
            self.metadata = _texts(header.pop("__metadata__", {}))
            self.tensors = {name: _spec(each) for name, each in header.items()}
            self._offsets = {name: each["data_offsets"] for name, each in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._damaged("not a complete safetensors file") from None
        self._check_offsets()

    def read(self) -> tuple[dict[str, Tensor], str]:
        """Read the tensors, once, each into its own memory, and compute the checksum."""
        digest = hashlib.sha256(self._head)
        found = {}
        for name in sorted(self._offsets, key=self._offsets.__getitem__):
            shape, dtype = self.tensors[name]
            found[name] = torch.empty(shape, dtype=dtype)
            data = _bytes_of(found[name])
            if self._file.readinto(data) != len(data):
                raise self._damaged("not a complete safetensors file")
            digest.update(data)
        return found, digest.hexdigest()

    def _check_offsets(self) -> None:
        """Check that the tensors follow each other without gaps and fill the file."""
        at = 0
        for name, (first, last) in sorted(self._offsets.items(), key=lambda item: item[1]):
            shape, dtype = self.tensors[name]
            if first != at or last - first != math.prod(shape) * dtype.itemsize:
                raise self._damaged("its tensors overlap or leave gaps")
            at = last
        if len(self._head) + at != self._size:
            raise self._damaged("not a complete safetensors file")

    def _damaged(self, why: str) -> DamagedBundle:
        return DamagedBundle(self._path, f"truncated or damaged: {why}")


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Return the checksum of tensors: of their names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(_bytes_of(tensor))
    return digest.hexdigest()


def serialized(tensors: dict[str, Tensor], metadata: tuple[str, str] = ("format", "pt")) -> bytes:
    """Return a safetensors file. Equal tensors give equal bytes."""
    bytearray(3 * sum(tensor.nbytes for tensor in tensors.values()))  # the library holds 3 copies
    return safetensors.torch.save(tensors, dict([metadata]))


def assign_weights(model: Model, weights: Mapping[str, Tensor]) -> None:
    """Set the parameters of a model to exactly the given weights.

    The model may have been built without memory.
    """
    # A shared parameter stays shared. Parameters are set as attributes, because PyTorch's recurrent
    # layers keep references to them.
    filled = {
        id(parameter): torch.nn.Parameter(weights[name])
        for name, parameter in model.named_parameters()
    }
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, filled[id(parameter)])


def _bytes_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor without copying them."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _listed(each: TensorSpec) -> str:
    text = str(list(each.shape))
    return text if len(text) <= 100 else f"of {len(each.shape)} dimensions"


def _spec(entry: dict[str, Any]) -> TensorSpec:
    """Parse an entry of a header."""
    if entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError("unknown fields")
    first, last = entry["data_offsets"]
    numbers = [*entry["shape"], first, last]
    if any(type(number) is not int or not 0 <= number < 1 << 62 for number in numbers):
        raise ValueError("no sizes")
    if math.prod(max(1, each) for each in entry["shape"]) >= 1 << 62:
        raise ValueError("more than PyTorch can count")
    return TensorSpec(tuple(entry["shape"]), _TYPES[entry["dtype"]])


def _texts(metadata: Any) -> dict[str, str]:
    """Return the named texts of a header; raise `ValueError` for anything else."""
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("no named texts")
    return metadata


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found
