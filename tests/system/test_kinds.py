"""Files are recognised by their content, whatever their names."""

import gzip
import io
import time
import zipfile
from pathlib import Path

import pytest

from crosshead.errors import DataError
from crosshead.system.kinds import HEAD, check_sentences, head_of, kind_of


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
    "WebVTT subtitles": [
        b"WEBVTT\n\n00:01.000 --> 00:02.000\nHi\n", b"\xef\xbb\xbfWEBVTT - x\n\n1\n0:01.0 --> 0:02"
    ],
    "SubRip subtitles": [
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
