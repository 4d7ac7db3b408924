import io
import random
import struct
import zipfile
from pathlib import Path

import pytest

from crosshead.system.archive import (
    BROKEN,
    NotPackedError,
    add,
    content_names,
    is_litter,
    new_archive,
    open_archive,
    open_member,
)

CONTENTS = {"config.json": b"{}", "README.md": b"", "model.safetensors": bytes(range(200))}


def packed(contents: dict[str, bytes]) -> bytes:
    parts: list[bytes] = []
    with new_archive(parts.append) as archive:
        for name, data in contents.items():
            add(archive, name, io.BytesIO(data), len(data))
    return b"".join(parts)


def read(data: bytes, tmp_path: Path) -> dict[str, bytes]:
    path = tmp_path / "archive"
    path.write_bytes(data)
    found = {}
    with path.open("rb") as file:
        archive = open_archive(file)
        for name in archive.namelist():
            member, size = open_member(archive, name)
            with member:
                found[name] = member.read()
            assert len(found[name]) == size
    return found


def zipped(contents: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how) as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name), data, how)
    return made.getvalue()


def twice(name: str) -> bytes:
    """An archive in which a name stands twice."""
    return zipped({name: b"1", "x" * len(name): b"2"}).replace(b"x" * len(name), name.encode())


def test_others_read_it() -> None:
    with zipfile.ZipFile(io.BytesIO(packed(CONTENTS))) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == CONTENTS
        assert {each.compress_type for each in archive.infolist()} == {zipfile.ZIP_STORED}
        assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_same_files_are_the_same_bytes() -> None:
    assert packed(CONTENTS) == packed(CONTENTS)


def test_members_are_read(tmp_path: Path) -> None:
    assert read(packed(CONTENTS), tmp_path) == CONTENTS
    assert read(zipped(CONTENTS), tmp_path) == CONTENTS  # of another program
    with (tmp_path / "archive").open("rb") as file, pytest.raises(FileNotFoundError):
        open_member(open_archive(file), "source.json")


def test_an_archive_of_more_than_4_gib_is_written_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form that it needs, which begins at a smaller size here."""
    plain = packed(CONTENTS)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    large = packed(CONTENTS)
    monkeypatch.undo()
    assert large != plain and b"PK\x06\x06" in large  # APPNOTE 4.3.14
    assert read(large, tmp_path) == CONTENTS


def hostile() -> dict[str, bytes]:
    good = zipped(CONTENTS)
    central = good.index(b"PK\1\2")

    def changed(at: int, value: bytes) -> bytes:
        at += central
        return good[:at] + value + good[at + len(value) :]

    return {
        "empty": b"",
        "text": b"PK, a text",
        "twice the same name": twice("config.json"),
        "compressed": zipped({"config.json": bytes(1000)}, zipfile.ZIP_DEFLATED),
        "a bomb": zipped({"config.json": bytes(10_000_000)}, zipfile.ZIP_DEFLATED),
        "larger than the file": changed(20, struct.pack("<2L", 1 << 31, 1 << 31)),
        "of two sizes": changed(20, struct.pack("<2L", 2, 1 << 31)),
        "encrypted": changed(8, b"\1"),
        "encrypted otherwise": changed(8, b"\x40"),
        "a newer zip": changed(6, b"\xff"),
        "no member there": changed(42, struct.pack("<L", 7)),
        "a member outside": changed(42, struct.pack("<L", 1 << 31)),
        "cut": good[:-1],
        "cut in a header": good[:20],
    }


@pytest.mark.parametrize("what", hostile())
def test_another_archive_is_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(NotPackedError):
        read(hostile()[what], tmp_path)


def test_a_changed_byte_is_reported_or_changes_no_file(tmp_path: Path) -> None:
    data = packed(CONTENTS)
    rng = random.Random(1)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        try:
            found = read(bytes(changed), tmp_path)
        except (NotPackedError, *BROKEN):
            continue
        assert set(found.values()) <= set(CONTENTS.values())


def test_names_lack_a_common_folder_and_what_macos_adds() -> None:
    def names(*stored: str) -> dict[str, str]:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name in stored:
                archive.writestr(name, "")
        return content_names(zipfile.ZipFile(stream))

    assert names("a/", "a/b", "a/c/d", "__MACOSX/a/._b", ".DS_Store") == {
        "b": "a/b",
        "c/d": "a/c/d",
    }
    assert names("a/b", "c") == {"a/b": "a/b", "c": "c"}
    assert is_litter("a/._b") and not is_litter("a/b._c")
