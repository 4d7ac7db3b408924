import io
import random
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from crosshead.archive import Entry, NotPackedError, end, header, members

CONTENTS = {"config.json": b"{}", "README.md": b"", "model.safetensors": bytes(range(200))}


def packed(contents: dict[str, bytes]) -> bytes:
    entries = [Entry(name, len(data), zlib.crc32(data)) for name, data in contents.items()]
    parts = zip(entries, contents.values(), strict=True)
    return b"".join(header(entry) + data for entry, data in parts) + end(entries)


def members_of(data: bytes, tmp_path: Path) -> dict[str, tuple[int, int]]:
    path = tmp_path / "archive"
    path.write_bytes(data)
    with path.open("rb") as file:
        return members(file)


def zipped(contents: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how) as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name), data, how)
    return made.getvalue()


def test_others_read_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(packed(CONTENTS))) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == CONTENTS
        assert {each.compress_type for each in archive.infolist()} == {zipfile.ZIP_STORED}


def test_files_are_found_where_they_are(tmp_path: Path) -> None:
    data = packed(CONTENTS)
    found = members_of(data, tmp_path)
    assert {name: data[at : at + size] for name, (at, size) in found.items()} == CONTENTS


def hostile() -> dict[str, bytes]:
    good = packed(CONTENTS)
    names = {
        f"name {name[:30]!a}": packed({name: b"x"})
        for name in ("../../outside", "/etc/passwd", "a/b", ".hidden", "", "a\\b", "c" * 65, "a\0b")
    }
    first = len(header(Entry("config.json", 2, 0)))

    def changed(at: int, value: bytes) -> bytes:
        return good[:at] + value + good[at + len(value) :]

    return {
        **names,
        "empty": b"",
        "no files": end([]),
        "text": b"PK, a text",
        "twice the same name": packed({"a": b"1"})[:32] + packed({"a": b"2"}),
        "many files": packed({"a" * n: b"" for n in range(1, 40)}),
        "compressed": zipped({"config.json": bytes(1000)}, zipfile.ZIP_DEFLATED),
        "a bomb": zipped({"config.json": bytes(10_000_000)}, zipfile.ZIP_DEFLATED),
        "of another program": zipped(CONTENTS),
        "larger than the file": changed(18, struct.pack("<2L", 1 << 31, 1 << 31)),
        "another size": changed(18, struct.pack("<2L", 1, 1)),
        "encrypted": changed(6, b"\1"),
        "an extra field": changed(28, b"\4"),
        "cut": good[:-1],
        "cut in a header": good[:20],
        "bytes behind": good + b"x",
        "bytes before": b"x" + good,
        "a comment": good[:-2] + b"\1\0x",
        "no end": good[: first + 2],
    }


@pytest.mark.parametrize("what", hostile())
def test_another_archive_is_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(NotPackedError):
        members_of(hostile()[what], tmp_path)


def test_every_bit_of_the_headers_counts(tmp_path: Path) -> None:
    data = packed(CONTENTS)
    inside = {at + n for at, size in members_of(data, tmp_path).values() for n in range(size)}
    rng = random.Random(1)
    for at in set(range(len(data))) - inside:
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        with pytest.raises(NotPackedError):
            members_of(bytes(changed), tmp_path)
