"""Files of bundles that somebody might make to crash, mislead or stall what reads them."""

import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Header = Mapping[str, Any]


def packed(header: Header | str | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """A file with this header, whose length is said to be `length`."""
    raw = header if isinstance(header, bytes) else None
    if raw is None:
        raw = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def entry(dtype: Any = "F32", shape: Any = (4,), offsets: Any = (0, 16), **others: Any) -> Header:
    """What a header says of a tensor."""
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **others}


def hostile_files(good: bytes) -> dict[str, bytes]:
    """Files by what is wrong with them; `good` is one with which nothing is."""
    size = struct.unpack("<Q", good[:8])[0]
    header, data = json.loads(good[8 : 8 + size]), good[8 + size :]
    first = next(name for name in header if name != "__metadata__")
    whole = header[first]
    begin, end = whole["data_offsets"]

    def changed(**fields: Any) -> bytes:
        return packed({**header, first: {**whole, **fields}}, data)

    files = {"empty": b"", "a pickle's first byte": b"\x80\x04", "zeros": bytes(4096)}
    for length in (
        0,
        1,
        size - 1,
        size + 1,
        10**8,
        10**8 + 1,
        2**31,
        2**32,
        2**53,
        2**63,
        2**64 - 1,
    ):
        files[f"a header of {length} bytes"] = packed(good[8 : 8 + size], data, length)
    for cut in (1, 7, 8, 9, 8 + size // 2, 8 + size, len(good) - 1):
        files[f"cut to {cut} bytes"] = good[:cut]
    for dtype in (
        "", "f32", "F99", "F16", "BF16", "F64", "I8", "I32", "I64", "U8", "U16", "U32", "U64",
        "BOOL", "C64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "F6_E2M3", "F6_E3M2", "object", None,
        1, [], {}, "F32\u0000", "S" * 100_000,
    ):  # fmt: skip
        files[f"type {str(dtype)[:20]!r}"] = changed(dtype=dtype)
    for shape in (
        [], [0], [-1], [1.5], [None], ["4"], None, "4", {}, [2**62], [2**63], [2**64],
        [2**32, 2**32], [2**31, 2**31, 4], [0, 2**62], [2**62, 0], [1] * 100_000, [10**400],
    ):  # fmt: skip
        files[f"shape {str(shape)[:30]}"] = changed(shape=shape)
    for offsets in (
        [], [0], [end, begin], [begin, end - 4], [begin, end + 4], [begin + 4, end + 4], [-4, end],
        [begin, 2**63], [2**64 - 16, 2**64], [0, 0], [len(data), len(data) + 16], None, "0,4",
        [begin, end, end], [0.0, 4.0], [10**30, 10**30],
    ):  # fmt: skip
        files[f"offsets {str(offsets)[:40]}"] = changed(data_offsets=offsets)
    for value in ("NaN", "Infinity", "-Infinity", "1e400"):
        text = json.dumps({**header, first: {**whole, "shape": ["HERE"]}})
        files[f"shape {value}"] = packed(text.replace('"HERE"', value), data)
    one, other = json.dumps(whole), json.dumps({**whole, "data_offsets": [begin, end - 4]})
    second = {**header, "another": whole}
    files |= {
        "overlapping tensors": packed(second, data),
        "a hole between tensors": packed({"a": entry(), "b": entry(offsets=(32, 48))}, bytes(48)),
        "bytes behind the tensors": good + b"behind",
        "no tensors": packed({}),
        "no tensors, and bytes": packed({}, data),
        "a tensor twice": packed(json.dumps(header)[:-1] + f', "{first}": {other}}}', data),
        "a field twice": packed(
            json.dumps(header).replace('"dtype"', '"dtype": "I8", "dtype"'), data
        ),
        "a deep header": packed("[" * 100_000 + "]" * 100_000, data),
        "a deep object": packed('{"a":' * 100_000 + "1" + "}" * 100_000, data),
        "deep metadata": packed('{"__metadata__":' + "[" * 100_000 + "]" * 100_000 + "}", data),
        "metadata that is no text": packed({**header, "__metadata__": {"a": 1}}, data),
        "metadata that is a list": packed({**header, "__metadata__": []}, data),
        "a header that is a list": packed([], data),  # type: ignore[arg-type]
        "a header that is a number": packed("1", data),
        "a header of white space": packed(" " * 1000, data),
        "a header that is not UTF-8": packed(b'{"\xff": 1}', data),
        "a lone surrogate": packed('{"\\ud800": ' + one + "}", data),
        "an entry that is a list": packed({**header, first: []}, data),
        "an entry that is a text": packed({**header, first: "F32"}, data),
        "an empty entry": packed({**header, first: {}}, data),
        "a name that leads out": packed({"../../outside": entry()}, bytes(16)),
        "a name of NUL": packed({"\0": entry()}, bytes(16)),
        "an empty name": packed({"": entry()}, bytes(16)),
        "a long name": packed({"n" * 1_000_000: entry()}, bytes(16)),
        "100,000 empty tensors": packed(
            {f"t{number}": entry(shape=(0,), offsets=(0, 0)) for number in range(100_000)}
        ),
        "one tensor fewer": packed({k: v for k, v in header.items() if k != first}, data),
        "a zip file": b"PK\x03\x04" + bytes(200),
    }
    return files


HUGE = (10**9, 2**31, 2**63, 2**64, 10**400, -1, 1e308, float("inf"), float("nan"))
"""Numbers that no model has."""

OTHERS = ("\ud800", "9" * 5000, True, [], {}, [[]] * 1000, {"a": {"b": []}}, "\0", "\x1b[2J")
"""What stands where a number or a name should."""


def hostile_configurations(good: str, shapes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong, and a `config.json` with which it is.

    Args:
        good: One with which nothing is, without checksums.
        shapes: A section `[model]` of every architecture, by its name.
    """
    whole = json.loads(good)
    top = [key for key in whole if key not in ("model", "decode", "format")]
    for key in ("source_vocabulary", "target_vocabulary", "longest_source"):
        for value in HUGE:
            yield f"{key} {str(value)[:12]}", json.dumps({**whole, key: value})
    for key in top:
        for value in OTHERS:
            if type(value) is not type(whole[key]) or value == "\ud800":
                yield f"{key} {str(value)[:12]!a}", json.dumps({**whole, key: value})
    for name, shape in shapes.items():
        for key, value in shape.items():
            if key == "task":
                continue
            numbers: tuple[Any, ...] = ()
            if value is None or type(value) in (int, float):  # what is unset may be a number
                numbers = HUGE
            for other in (*numbers, *OTHERS):
                if other in numbers or type(other) is not type(value):
                    model = {**shape, key: other}
                    changed = {**whole, "task": model.pop("task"), "model": model}
                    yield f"{name}: {key} {str(other)[:12]!a}", json.dumps(changed)
    for key in whole["decode"]:
        for other in ("\ud800", [], {}, float("nan"), -1, 1e400):
            changed = {**whole, "decode": {**whole["decode"], key: other}}
            yield f"decode.{key} {str(other)[:12]!a}", json.dumps(changed)
    for text in (
        "", "null", "[]", "1", "[" * 200_000, '{"a":' * 200_000, good + good, good[:-3],
        "\ufeff" + good, good.replace('"format": 1', '"format": 1e400'), " " * (1 << 21),
    ):  # fmt: skip
        yield f"the text {text[:20]!a}", text


def _nothing(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 36)


IRREGULAR: dict[str, Callable[[Path], object]] = {
    "a directory": Path.mkdir,
    "a named pipe": os.mkfifo,
    "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "/dev/stdin": lambda path: path.symlink_to("/dev/tty"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "64 GB of nothing": _nothing,
}
"""What may stand in the place of a file, and how it is put there."""
