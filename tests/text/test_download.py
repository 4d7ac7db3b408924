import gzip
import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from crosshead.errors import DataError, UserError
from crosshead.text import download as module
from crosshead.text.download import DATA_SETS, RemoteFile, download

TEXT = b"A dog runs.\n"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    site = tmp_path / "site"
    site.mkdir()
    (site / "plain.txt").write_bytes(TEXT)
    (site / "packed.txt.gz").write_bytes(gzip.compress(TEXT))
    (site / "torn.txt.gz").write_bytes(gzip.compress(TEXT)[:-12])
    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def offer(monkeypatch: pytest.MonkeyPatch, *files: RemoteFile) -> None:
    monkeypatch.setattr(module, "DATA_SETS", {"small": list(files)})
    # No proxy of the environment stands between the test and its own server.
    monkeypatch.setenv("no_proxy", "*")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_files_are_downloaded_unpacked_and_checked(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(
        monkeypatch,
        RemoteFile("a.txt", f"{address}/plain.txt", len(TEXT), sha256(TEXT)),
        RemoteFile("b.txt", f"{address}/packed.txt.gz", len(TEXT), sha256(TEXT)),
    )
    said: list[str] = []
    download("small", tmp_path / "out", said.append)
    assert (tmp_path / "out/a.txt").read_bytes() == (tmp_path / "out/b.txt").read_bytes() == TEXT
    assert all("SHA-256 as expected" in line for line in said)
    said.clear()
    download("small", tmp_path / "out", said.append)
    assert [line.endswith("already exists") for line in said] == [True, True]


def test_a_wrong_checksum_writes_nothing(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, RemoteFile("a.txt", f"{address}/plain.txt", len(TEXT), sha256(b"other")))
    with pytest.raises(DataError, match=f"SHA-256 is {sha256(TEXT)}, expected {sha256(b'other')}"):
        download("small", tmp_path / "out", print)
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way_is_left_alone(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, RemoteFile("a.txt", f"{address}/plain.txt", len(TEXT), sha256(TEXT)))
    for mine in (b"mine", TEXT[::-1]):
        (tmp_path / "a.txt").write_bytes(mine)
        with pytest.raises(DataError, match=r"a\.txt exists"):
            download("small", tmp_path, print)
        assert (tmp_path / "a.txt").read_bytes() == mine


def test_what_is_in_the_way_is_not_read_where_its_size_is_wrong(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, RemoteFile("a.txt", f"{address}/plain.txt", len(TEXT), sha256(TEXT)))
    place = tmp_path / "a.txt"
    os.mkfifo(place)  # which nobody writes to: reading it would wait
    with pytest.raises(DataError, match=r"a\.txt exists and is not the file of 12 bytes"):
        download("small", tmp_path, print)
    place.unlink()
    place.touch()
    os.truncate(place, 200 * 10**9)
    with pytest.raises(DataError, match=r"a\.txt exists and is not the file of 12 bytes"):
        download("small", tmp_path, print)


@pytest.mark.parametrize(("path", "words"), [("absent.txt", "404"), ("torn.txt.gz", "SHA-256")])
def test_what_a_source_fails_to_send(
    path: str, words: str, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, RemoteFile("a.txt", f"{address}/{path}", len(TEXT), sha256(TEXT)))
    with pytest.raises(DataError, match=words):
        download("small", tmp_path / "out", print)
    assert not (tmp_path / "out").exists()


def test_no_network_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        offer(
            monkeypatch,
            RemoteFile("a.txt", f"http://127.0.0.1:{port}/a.txt", len(TEXT), sha256(TEXT)),
        )
        with pytest.raises(DataError, match="needs the network") as caught:
            download("small", tmp_path / "out", print)
    assert "\n" not in str(caught.value)
    assert f"127.0.0.1:{port}" in str(caught.value)


def test_a_directory_that_cannot_be_made(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, RemoteFile("a.txt", f"{address}/plain.txt", len(TEXT), sha256(TEXT)))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match="cannot make the directory"):
        download("small", tmp_path / "file" / "below", print)


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="did you mean 'multi30k'"):
        download("multi30", tmp_path, print)


@pytest.mark.parametrize(
    ("name", "folder"),
    [("multi30k", "multi30k/raw"), ("tinyshakespeare", "tinyshakespeare"), ("ett", "ett")],
)
def test_sizes_and_checksums_are_those_of_the_real_files(
    name: str, folder: str, data: Path
) -> None:
    for file in DATA_SETS[name]:
        content = (data / folder / file.name).read_bytes()
        assert (len(content), sha256(content)) == (file.size, file.sha256)


@pytest.mark.slow
def test_dates_do_not_replace_other_files(tmp_path: Path) -> None:
    said: list[str] = []
    download("dates", tmp_path, said.append)
    assert len(said) == 8 and all("SHA-256 as expected" in line for line in said)
    download("dates", tmp_path, said.append)
    assert all(line.endswith(" already exists") for line in said[8:])
    mine = tmp_path / "valid.de"
    mine.write_text("mine")
    (tmp_path / "train.en").unlink()
    with pytest.raises(DataError, match=r"valid\.de exists .*; move it away"):
        download("dates", tmp_path, said.append)
    assert mine.read_text() == "mine" and not (tmp_path / "train.en").exists()


@pytest.mark.parametrize("name", ["small", "dates"])
def test_a_file_in_place_of_the_directory_is_named_before_anything_is_sent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, RemoteFile("a.txt", "http://nowhere.invalid/a.txt", 1, sha256(b"a")))
    (tmp_path / "out").write_text("")
    with pytest.raises(DataError, match=r"out: is a file; name a directory with --out"):
        download(name, tmp_path / "out", str)
