import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.config import validate
from crosshead.data.corpora import DataConfig, read_aligned, read_pairs, read_valid_pairs
from crosshead.data.lines import file_sha256, read_lines, split_lines
from crosshead.errors import ConfigError
from tests.data.written import config, refusal, write


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
        assert "cut.gz: not a whole gzip file" in refusal(read_lines, cut)


def test_unequal_files_are_named_with_both_counts(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", "a\nb\n"), write(tmp_path / "two", "a\n")
    message = refusal(read_aligned, one, two)
    assert f"{one} has 2 lines but {two} has 1" in message
    empty = write(tmp_path / "empty", "")
    assert "are empty" in refusal(read_aligned, empty, empty)


def test_several_corpora_of_every_kind_with_their_origins(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a.en", "one\ntwo\n"),
        write(tmp_path / "b.en.gz", "three\n"),
        write(tmp_path / "a.de", "eins\nzwei"),
        write(tmp_path / "b.de", "drei\r\n"),
        write(tmp_path / "c.tsv.gz", "id\tde\ten\n7\tvier\tfour\n8\tf\u2028nf\tfive\textra\n"),
        write(tmp_path / "d.jsonl", '{"en": "six", "de": "sechs"}\n{"de": "", "en": "\\n"}\n'),
    ]
    text = read_pairs(
        config(source=paths[:2], target=paths[2:4], pairs=paths[4:], fields=["en", "de"])
    )
    assert text.source == ["one", "two", "three", "four", "five", "six", "\n"]
    assert text.target == ["eins", "zwei", "drei", "vier", "f\u2028nf", "sechs", ""]
    assert [text.origin(row) for row in range(7)] == [
        (str(paths[0]), 1),
        (str(paths[0]), 2),
        (str(paths[1]), 1),
        (str(paths[4]), 2),
        (str(paths[4]), 3),
        (str(paths[5]), 1),
        (str(paths[5]), 2),
    ]


def test_tsv_by_position(tmp_path: Path) -> None:
    two = write(tmp_path / "two.tsv", "a\tb\nc\t\n")
    text = read_pairs(config(pairs=str(two)))
    assert (text.source, text.target) == (["a", "c"], ["b", ""])
    text = read_pairs(config(pairs=str(two), fields=["2", "1"]))
    assert (text.source, text.target) == (["b", ""], ["a", "c"])


def test_configurations_that_do_not_fit_together() -> None:
    for values, message in [
        ({"source": "a"}, "source names 1 files but target 0"),
        ({"source": ["a"], "target": ["a", "b"]}, "source names 1 files but target 2"),
        ({"valid_source": ["a"]}, "valid_source names 1 files but valid_target 0"),
        ({"pairs": "a.jsonl.gz"}, "name two fields"),
        ({"fields": ["en"]}, "fields names the source's and the target's field"),
        ({"max_ratio": float("nan")}, "max_ratio"),
        ({"max_length": 0}, "max_length"),
        ({"pairs": "a.tsv", "weights": [1.0, 2.0]}, "weights has 2 numbers for 1 corpora"),
        ({"pairs": "a.tsv", "weights": [0.0]}, "weights"),
        ({"pairs": "a.tsv", "weights": [float("inf")]}, "weights"),
        ({"sources": ["a"]}, "did you mean 'source'"),
    ]:
        with pytest.raises(ConfigError, match=message):
            validate(DataConfig, values)


def test_no_data_at_all() -> None:
    assert "no training data" in refusal(read_pairs, DataConfig())


def test_validation_files(tmp_path: Path) -> None:
    assert read_valid_pairs(DataConfig()) is None
    one, two = write(tmp_path / "one", "a\n"), write(tmp_path / "two", "b\n")
    valid = read_valid_pairs(config(valid_source=[one], valid_target=[two]))
    assert valid is not None and (valid.source, valid.target) == (["a"], ["b"])
    both = write(tmp_path / "both.tsv", "c\td\n")
    valid = read_valid_pairs(config(valid_pairs=[both]))
    assert valid is not None and (valid.source, valid.target) == (["c"], ["d"])


def test_the_checksum_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "ä\n")
    assert file_sha256(path) == hashlib.sha256("ä\n".encode()).hexdigest()
    assert "no such file" in refusal(file_sha256, tmp_path / "b")


def test_real_files(data: Path) -> None:
    folder = data / "multi30k/raw"
    text = read_pairs(config(source=[folder / "train.en"], target=[folder / "train.de"]))
    assert len(text) == 29_000
    assert text.origin(28_999).line == 29_000
    assert json.dumps(text.source[0]).startswith('"Two young, White males')


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
        patch.setattr("crosshead.data.lines._BLOCK", block)
        assert read_lines(path) == split_lines(raw, "f")


def test_a_damaged_line_is_named_in_whichever_block_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosshead.data.lines._BLOCK", 4)
    path = write(tmp_path / "file", b"one line\n\ntwo\nab\xe4cd\n")
    assert refusal(read_lines, path).startswith(f"{path}:4:3: not UTF-8 (byte 0xE4)")


def test_aligned_files_are_compared_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crosshead.data.corpora.CHUNK", 3)
    one, two = write(tmp_path / "one", "a\n" * 20), write(tmp_path / "two", "b\n" * 8)
    assert f"{one} has 20 lines but {two} has 8" in refusal(read_aligned, one, two)
    assert f"{two} has 8 lines but {one} has 20" in refusal(read_aligned, two, one)
    assert read_aligned(two, two) == (["b"] * 8, ["b"] * 8)


@pytest.mark.parametrize("read", [read_pairs, read_valid_pairs])
def test_a_pipe_is_refused_since_text_is_read_again(
    read: Callable[[DataConfig], object], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    file, (out, into) = write(tmp_path / "en", "a\n"), os.pipe()
    try:
        for pipe in (tmp_path / "fifo", f"/dev/fd/{out}"):
            for source, target in ((pipe, file), (file, pipe)):
                names = {"source": [source], "target": [target]}
                valid = {f"valid_{key}": value for key, value in names.items()}
                said = refusal(read, config(**names, **valid))
                assert said.startswith(f"{pipe}: a pipe, and text is read several times; write it")
            said = refusal(read, config(pairs=[pipe], valid_pairs=[pipe]))
            assert said.startswith(f"{pipe}: a pipe")
    finally:
        os.close(out)
        os.close(into)
