import io
import json
import os
import random
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.bundle.files import pack
from crosshead.errors import BundleError, DamagedBundle
from crosshead.system.stored import (
    BROKEN,
    NotPackedError,
    NotRegularError,
    add,
    content_names,
    is_litter,
    new_archive,
    open_archive,
    open_member,
    open_regular,
    open_stored,
    packed_names,
    read_metadata,
    read_stored,
    stored_size,
)

SEALED = Path(__file__).parent.parent / "fixtures" / "bundle-format-1-sealed"


def a_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


IRREGULAR: dict[str, Callable[[Path], object]] = {
    "a directory": Path.mkdir,
    "a named pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": a_socket,
}
SAID = {"a directory": "a directory"}


@pytest.mark.parametrize("kind", IRREGULAR)
@pytest.mark.parametrize("read", [read_stored, stored_size, read_metadata])
def test_only_a_regular_file_is_read(
    read: Callable[[Path], object], kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    IRREGULAR[kind](path)
    said = SAID.get(kind, "a pipe or a device")
    with pytest.raises(DamagedBundle, match=rf"config\.json: {said}, expected a file"):
        read(path)
    with pytest.raises(NotRegularError, match=said):
        open_regular(path)


def test_a_link_to_a_file_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"text")
    (tmp_path / "here").symlink_to("there")
    assert read_stored(tmp_path / "here") == b"text"
    assert stored_size(tmp_path / "here") == 4


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(bytes(11))
    assert read_stored(path, 11) == bytes(11)
    with pytest.raises(DamagedBundle, match="11 bytes, expected at most 10"):
        read_stored(path, 10)
    with path.open("r+b") as file:
        file.truncate(1 << 36)  # it takes no space
    with pytest.raises(DamagedBundle, match="bytes, expected at most"):
        read_metadata(path)


@pytest.mark.parametrize("text", [r'{"a": "\ud800"}', r'{"\uDFFF": 1}', r'{"a": ["\udc00x"]}'])
def test_a_lone_surrogate_is_not_text(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(DamagedBundle, match=r"contains U\+D[8CF][0F][0F], a lone surrogate"):
        read_metadata(path)


def test_a_pair_of_surrogates_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"a": "\U0001f600"}, ensure_ascii=True))
    assert read_metadata(tmp_path / "a.json") == {"a": "\U0001f600"}


def test_what_is_packed_is_read_as_from_a_directory(tmp_path: Path) -> None:
    archive = pack(SEALED, tmp_path / "a.zip")
    for name in packed_names(archive):
        whole = (SEALED / name).read_bytes()
        assert read_stored(archive / name) == whole
        assert stored_size(archive / name) == len(whole)
    with pytest.raises(DamagedBundle, match=r"a\.zip/source\.json: missing"):
        read_stored(archive / "source.json")


def test_a_changed_byte_of_what_is_packed_is_named(tmp_path: Path) -> None:
    archive = pack(SEALED, tmp_path / "a.zip")
    card = (SEALED / "README.md").read_bytes()
    archive.write_bytes(archive.read_bytes().replace(card, card[:-1] + b"~"))
    with pytest.raises(DamagedBundle, match=r"a\.zip/README\.md: changed after it was packed"):
        read_stored(archive / "README.md")


def test_a_file_is_closed_after_it_was_read(tmp_path: Path) -> None:
    archive = pack(SEALED, tmp_path / "a.zip")
    for path in (archive / "README.md", SEALED / "README.md"):
        with open_stored(path) as (file, _):
            pass
        assert file.closed


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "missing"),
        (b"{", r"not valid JSON \(line 1, column 2\)"),
        (b"\xff", "not valid JSON"),
        (b"[1]", "expected a JSON object, found list"),
    ],
)
def test_metadata_that_are_none_are_damage(
    tmp_path: Path, content: bytes | None, found: str
) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DamagedBundle, match=rf"config\.json: {found}; the bundle is damaged"):
        read_metadata(path)


def test_metadata_are_read_or_the_reason_is_given(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1]}')
    assert read_metadata(tmp_path / "a.json") == {"a": [1]}
    with pytest.raises(DamagedBundle, match="a directory, expected a file"):
        read_metadata(tmp_path)
    with pytest.raises(BundleError, match=r"a\.json: a JSON file; expected the directory"):
        read_metadata(tmp_path / "a.json" / "b.json")


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
