"""Files that are not UTF-8: what they are, and the command that converts them."""

import gzip
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from crosshead.errors import DataError
from crosshead.system.lines import read_lines
from tests.text.written import refusal, write

TEXT = "Größe und Maß\tä\nÜber den Wölfen\tö\n" * 9


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
@pytest.mark.parametrize("name", ["my file.tsv", "x.de.gz"])
def test_the_command_that_is_named_converts_the_file(
    encoding: str, name: str, tmp_path: Path
) -> None:
    if shutil.which("iconv") is None:
        pytest.skip("there is no iconv here")
    path = write(tmp_path / name, TEXT.encode(encoding))
    said = refusal(read_lines, path)
    assert said.startswith(f"{path}:")
    command = said[said.index("gunzip" if name.endswith("gz") else "iconv") :]
    subprocess.run(command, shell=True, check=True)
    copy = tmp_path / ("x.utf8.de" if name.endswith("gz") else "my file.utf8.tsv")
    assert read_lines(copy) == TEXT.splitlines()


def test_guesses_are_called_so_and_are_not_made_where_there_is_no_ground(tmp_path: Path) -> None:
    western = refusal(read_lines, write(tmp_path / "a", TEXT.encode("cp1252")))
    assert "a:1:3: not UTF-8 (byte 0xF6); perhaps the file is windows-1252" in western
    russian = refusal(read_lines, write(tmp_path / "b", "Привет, мир\n".encode("cp1251")))
    assert "windows-1252" not in russian and "iconv -f ENCODING" in russian
    japanese = refusal(read_lines, write(tmp_path / "c", "日本語の文 ABC\n".encode("shift_jis")))
    assert "iconv -f ENCODING" in japanese
    damaged = refusal(read_lines, write(tmp_path / "d", TEXT.encode() + b"caf\xe9\n"))
    assert "d:19:4: not UTF-8" in damaged and "repair this line" in damaged


@pytest.mark.parametrize("text", ["a\0b\n", "\0" * 40 + "\n", "Привет, мир\n" * 40, ""])
def test_utf8_with_zero_bytes_stays_what_it_is(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x", gzip.compress(text.encode()))
    path = path.rename(path.with_suffix(".gz"))
    assert read_lines(path) == text.splitlines()


def test_a_spreadsheet_is_known_and_its_export_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
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
