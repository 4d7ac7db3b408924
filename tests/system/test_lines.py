import gzip
import hashlib
import io
import os
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.errors import DataError
from crosshead.system.lines import (
    HEAD,
    LONGEST_LINE,
    LONGEST_TEXT,
    check_regular,
    check_sentences,
    file_sha256,
    head_of,
    iter_lines,
    kind_of,
    read_lines,
    split_lines,
)
from tests.text.written import refusal, write


def zipped(*names: str, mimetype: str = "") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        if mimetype:
            archive.writestr("mimetype", mimetype)
        for name in names:
            archive.writestr(name, "<x/>" * 20, zipfile.ZIP_DEFLATED)
    return data.getvalue()


ODF = "application/vnd.oasis.opendocument."
KINDS = {
    "a spreadsheet": [
        zipped("[Content_Types].xml", "_rels/.rels", "xl/workbook.xml"),
        zipped("content.xml", mimetype=f"{ODF}spreadsheet"),
    ],
    "a document of an office program": [
        zipped("[Content_Types].xml", "word/document.xml"),
        zipped("[Content_Types].xml", "ppt/presentation.xml"),
        zipped("META-INF/container.xml", mimetype="application/epub+zip"),
        zipped("content.xml"), zipped("x", mimetype=f"{ODF}text"),
    ],
    "a zip archive": [zipped("config.json", "model.safetensors"), zipped("a.txt")[:40]],
    "a spreadsheet or document of an old version of Office": [
        bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504)
    ],
    "a PDF document": [b"%PDF-1.7\n%\xe2\xe3\n", b"%PDF-1.4\nplain\n"],
    "subtitles": [
        b"WEBVTT\n\n00:01.000 --> 00:02.000\nHi\n",
        b"\xef\xbb\xbfWEBVTT - x\n\n1\n00:01.0 --> 0:02",
        b"1\n00:00:01,000 --> 00:00:02,000\nHi.\n", b"\r\n1\r\n0:00:01.5 --> 0",
        b"0\n00:00:01,000-->00:00:02,000\nHi\n", b"By X\n\n1\n00:00:01,000 --> 00:00:02,000\n",
    ],
    "an HTML document": [
        b"<!DOCTYPE html>\n<p>", b"<!-- x -->\n<HTML lang=en>",
        b'<?xml version="1.0"?>\n<!DOCTYPE html>',
    ],
    "an XML file": [
        b'<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">',
        b'<xliff version="1.2">',
        b'<?xml version="1.0"?>\n<a>',
        b'<tt xml:lang="en" xmlns="http://www.w3.org/ns/ttml">',
    ],
    "a catalogue of messages": [
        b'# A comment\nmsgid ""\nmsgstr ""\n', b'\n#, c-format\nmsgctxt "menu"\nmsgid "%d files"\n',
    ],
    "a JSON file": [
        b'{"a": 1}', b'[{"a": [1]}]\n', b'["a"]', b"[]", b"[[1, 2], [3]]\n",
        b'{"en": "One.", "de": "Eins."}\n{"en": "Two.", "de": "Zwei."}\n',
        b'[\n  "' + b'", "'.join([b"sentence"] * 20_000),
        b"{\n" + b'  "key": "text",\n' * 10_000,
    ],
    "a table": [
        b"One.\tEins.\nTwo.\tZwei.\n", b"a\tb\tc\r\nd\t\tf\r\n",
    ],
}  # fmt: skip


@pytest.mark.parametrize("words", KINDS)
def test_a_file_is_known_by_its_content(words: str) -> None:
    for content in KINDS[words]:
        found = kind_of(content)
        assert found is not None and found.words == words, content[:60]
        with pytest.raises(DataError) as caught:
            check_sentences(content, "x.txt")
        assert str(caught.value).startswith(f"x.txt: {words}, expected text")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "One sentence.\n", "PK is it.\n", "GIF89a is old.\n",
        "[1] The first note.\n[2] The second note.\n", "[[link]] and text\n", '"Yes", she said.\n',
        "{x} is a set.\n", "{ \"a\" } is a set.\n", "WEBVTTX\n", "%PDF- is a mark.\n",
        "WEBVTT is a format.\n", "<b>One</b> two.\n", "<s> a\n",
        "1\n2\n3\n", "00:00 --> 00:01\n", "msgid is a key.\n",
        "One, two.\nThree, four.\nFive, six.\n",
        "It costs 1,000 euros.\nAnd 2,000.\nOr 3,000.\n", "a\tb\n", "One.\tEins.\nTwo.\n",
        "你好,世界\n早上好,妈妈\n", "RIFF is a word.\n", "BMW makes cars.\n", "%PD\n",
        "12\n", '"text"\n',
    ],
)  # fmt: skip
def test_plain_lines_are_lines(text: str) -> None:
    assert kind_of(text.encode()) is None
    check_sentences(text.encode(), "x.json")


def test_the_head_of_a_file_is_unpacked_and_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"WEBVTT\n"))
    assert head_of(tmp_path / "a.gz") == b"WEBVTT\n"
    (tmp_path / "a.gz").write_bytes(b"no gzip")
    for path in (tmp_path / "a.gz", tmp_path, tmp_path / "missing", Path("/dev/null")):
        assert head_of(path) == b""


@pytest.mark.parametrize("start", [b"", b"1", b"<!--", b"[", b"PK\x03\x04"])
@pytest.mark.parametrize(
    "piece", [b"# a comment\n", b"<!-- a -->\n", b"[", b'"', b" ", b"\n", b"1\n", b"<?xml "]
)
def test_no_beginning_takes_long_to_recognise(start: bytes, piece: bytes) -> None:
    begin = time.process_time()
    kind_of((start + piece * HEAD)[:HEAD])
    assert time.process_time() - begin < 1


def test_only_its_name_tells_a_table_with_commas_from_sentences() -> None:
    text = b"you&apos;re\nhe&apos;s\nit&apos;s\n"
    for name, words in {"a.csv": "a table", "b.CSV.gz": "a table", "a.txt": None}.items():
        found = kind_of(text, name)
        assert (found and found.words) == words


def test_only_line_feeds_end_lines() -> None:
    odd = "a\u2028b\u0085c\x0bd\x0ce\x1c\x1d\x1e\0f\rg"
    assert split_lines(f"\ufeff{odd}\r\n\r\n\ufeffx\r\r\nlast".encode(), "f") == [
        odd,
        "",
        "\ufeffx\r",
        "last",
    ]


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"\n\n", ["", ""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\xef\xbb\xbf", []),
        (b"a\r", ["a\r"]),
    ],
)
def test_how_many_lines_there_are(raw: bytes, lines: list[str]) -> None:
    assert split_lines(raw, "f") == lines


LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\ufeff"))


@given(lines=st.lists(LINE.map(lambda line: line.rstrip("\r")), max_size=6), crlf=st.booleans())
def test_lines_that_are_written_are_read(lines: list[str], crlf: bool) -> None:
    end = "\r\n" if crlf else "\n"
    assert split_lines("".join(line + end for line in lines).encode(), "f") == lines


@pytest.mark.parametrize(
    ("raw", "where"),
    [(b"\xff\xff", "f:1:1"), (b"ok\nok\nab\xe4cd\n", "f:3:3"), (b"a\n\xf0\x9f", "f:2:1")],
)
def test_invalid_utf8_is_named_by_line_and_byte(raw: bytes, where: str) -> None:
    assert refusal(split_lines, raw, "f").startswith(f"{where}: not UTF-8 (byte 0x")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(read_lines, tmp_path / "no").endswith("no: no such file; check its name")
    assert "is a directory" in refusal(read_lines, tmp_path)
    assert "cannot be read" in refusal(read_lines, write(tmp_path / "file", "x") / "below")
    whole = write(tmp_path / "whole.gz", "Zeile\n" * 1000)
    assert read_lines(whole) == ["Zeile"] * 1000
    cut = tmp_path / "cut.gz"
    for damaged in (b"plain text", whole.read_bytes()[:-20], whole.read_bytes()[:12] + b"\0" * 30):
        cut.write_bytes(damaged)
        assert "cut.gz: incomplete or damaged gzip file" in refusal(read_lines, cut)


def test_the_checksum_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "ä\n")
    assert file_sha256(path) == hashlib.sha256("ä\n".encode()).hexdigest()
    assert "no such file" in refusal(file_sha256, tmp_path / "b")


@given(
    lines=st.lists(LINE.map(lambda line: line.rstrip("\r")), max_size=9),
    block=st.integers(1, 9),
    mark=st.booleans(),
)
def test_lines_are_the_same_in_blocks_of_any_size(
    lines: list[str], block: int, mark: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("blocks") / "file"
    raw = ("\ufeff" * mark + "\r\n".join(lines)).encode()
    path.write_bytes(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crosshead.system.lines._BLOCK", block)
        assert read_lines(path) == split_lines(raw, "f")


def test_a_damaged_line_is_named_in_whichever_block_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosshead.system.lines._BLOCK", 4)
    path = write(tmp_path / "file", b"one line\n\ntwo\nab\xe4cd\n")
    assert refusal(read_lines, path).startswith(f"{path}:4:3: not UTF-8 (byte 0xE4)")


def test_a_line_that_does_not_end_is_refused_before_it_is_held(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse"
    sparse.write_bytes(b"one\ntwo\n")
    os.truncate(sparse, 200 * 10**9)
    packed = tmp_path / "zeros.gz"
    packed.write_bytes(gzip.compress(b"one\ntwo\n" + bytes(LONGEST_LINE + 2**20), 1))
    for path in (sparse, packed):
        lines = iter_lines(path)
        said = refusal(lambda lines=lines: list(lines))
        assert f"{path}:3: more than 16,777,216 bytes without a line feed" in said
    assert "/dev/zero:1: more than" in refusal(read_lines, Path("/dev/zero"))


def test_a_text_may_be_one_long_line(tmp_path: Path) -> None:
    path = write(tmp_path / "text", "x" * (LONGEST_LINE + 2**20 + 1))
    assert "more than" in refusal(read_lines, path)
    [line] = read_lines(path, LONGEST_TEXT)
    assert len(line) > LONGEST_LINE


def test_what_cannot_be_read_twice_is_refused_by_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for place in (tmp_path / "fifo", Path("/dev/zero")):
        assert f"{place}: a pipe or a device, but text is read" in refusal(check_regular, place)
    for place in (tmp_path, tmp_path / "absent", write(tmp_path / "file", "")):
        check_regular(place)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "cp1252", "shift_jis"])
def test_a_file_in_another_encoding_is_refused_with_a_command(
    encoding: str, tmp_path: Path
) -> None:
    text = "日本語の文 ABC\n" if encoding == "shift_jis" else "Größe und Maß\n"
    said = refusal(read_lines, write(tmp_path / "a", text.encode(encoding)))
    assert "a:1:" in said and "iconv -f ENCODING -t UTF-8 IN > OUT" in said and "\n" not in said


@pytest.mark.parametrize("text", ["a\0b\n", "\0" * 40 + "\n", "Привет, мир\n" * 40, ""])
def test_utf8_with_zero_bytes_stays_what_it_is(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x", gzip.compress(text.encode()))
    path = path.rename(path.with_suffix(".gz"))
    assert read_lines(path) == text.splitlines()


def test_a_spreadsheet_is_known_and_its_export_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        # This time of day has a byte that is a line feed.
        archive.writestr(zipfile.ZipInfo("xl/workbook.xml", (2026, 1, 1, 1, 16, 20)), "<workbook/>")
    with pytest.raises(DataError, match=r"pairs\.xlsx: a spreadsheet.*CSV UTF-8"):
        read_lines(path)
    old = tmp_path / "pairs.xls"
    old.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504))
    with pytest.raises(
        DataError, match=r"pairs\.xls: a spreadsheet or document of an old.*CSV UTF-8"
    ):
        read_lines(old)


def test_a_gzip_file_under_another_name_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(gzip.compress(b"one\ttwo\n"))
    with pytest.raises(DataError, match=r"a\.tsv: a gzip file whose name does not end in \.gz"):
        list(read_lines(path))
