import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.bundle.packing import pack
from crosshead.errors import BundleError, DamagedBundle
from crosshead.system.stored import (
    NotRegularError,
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
