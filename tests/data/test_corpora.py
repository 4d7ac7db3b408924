import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from crosshead.config import validate
from crosshead.data.corpora import (
    DataConfig,
    ParallelText,
    file_sha256,
    hold_out,
    read_aligned,
    read_lines,
    read_pairs,
    read_valid_pairs,
    split_lines,
)
from crosshead.errors import ConfigError, DataError, UserError


def config(**values: object) -> DataConfig:
    as_given = {
        key: [str(path) for path in value] if isinstance(value, list) else value
        for key, value in values.items()
    }
    return validate(DataConfig, as_given)


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def refusal(*read: object) -> str:
    """The one line with which `read[0]` refuses the rest."""
    function, *arguments = read
    assert callable(function)
    with pytest.raises(UserError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


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
    [(b"\xff\xfe", "f:1:1"), (b"ok\nok\nab\xe4cd\n", "f:3:3"), (b"a\n\xf0\x9f", "f:2:1")],
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
    some = text.select([4, 0])
    assert (some.source, some.target) == (["five", "one"], ["f\u2028nf", "eins"])
    assert [some.origin(row) for row in range(2)] == [text.origin(4), text.origin(0)]


def test_tsv_by_position(tmp_path: Path) -> None:
    two = write(tmp_path / "two.tsv", "a\tb\nc\t\n")
    text = read_pairs(config(pairs=str(two)))
    assert (text.source, text.target) == (["a", "c"], ["b", ""])
    text = read_pairs(config(pairs=str(two), fields=["2", "1"]))
    assert (text.source, text.target) == (["b", ""], ["a", "c"])


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        ("x.tsv", "a\tb\nc\n", [], "x.tsv:2: expected 2 columns between tabs, found 1"),
        ("x.tsv", "a\tb\tc\n", [], "x.tsv:1: expected 2 columns between tabs, found 3; say which"),
        ("x.tsv", "a\tb\nc\n", ["1", "2"], "x.tsv:2: expected at least 2 columns"),
        ("x.tsv", "en\tfr\nc\td\n", ["en", "de"], "x.tsv:1: no column 'de'"),
        ("x.tsv", "en\tde\na\tb\nc\n", ["en", "de"], "x.tsv:3: expected at least 2 columns"),
        ("x.tsv", "en\tde\n", ["en", "de"], "x.tsv: empty"),
        ("x.tsv", "", [], "x.tsv: empty"),
        ("x.tsv.gz", "", ["en", "de"], "x.tsv.gz:1: no column 'en'"),
        ("x.jsonl", "", ["en", "de"], "x.jsonl: empty"),
        ("x.jsonl", '{"en": "a", "de": "b"}\n{"en"', ["en", "de"], "x.jsonl:2: not JSON"),
        ("x.jsonl", "\n", ["en", "de"], "x.jsonl:1: not JSON"),
        ("x.jsonl", '["a", "b"]', ["en", "de"], "x.jsonl:1: expected an object with 'en', 'de'"),
        ("x.jsonl", '{"en": "a"}', ["en", "de"], "x.jsonl:1: no field 'de'; it has 'en'"),
        ("x.jsonl", '{"en": "a", "de": 3}', ["en", "de"], "x.jsonl:1: field 'de' is not a string"),
        ("x.jsonl", '{"en": "\\ud800", "de": ""}', ["en", "de"], "x.jsonl:1: field 'en' holds a"),
        ("x.jsonl", "[" * 100_000, ["en", "de"], "x.jsonl:1: not JSON"),
    ],
)
def test_damaged_pairs_are_named(
    tmp_path: Path, name: str, content: str, fields: list[str], message: str
) -> None:
    path = write(tmp_path / name, content)
    refused = refusal(read_pairs, config(pairs=str(path), fields=fields))
    assert refused.startswith(f"{tmp_path}/{message}")


def test_configurations_that_do_not_fit_together() -> None:
    for values, message in [
        ({"source": "a"}, "source names 1 files but target 0"),
        ({"source": ["a"], "target": ["a", "b"]}, "source names 1 files but target 2"),
        ({"valid_source": ["a"]}, "valid_source names 1 files but valid_target 0"),
        ({"pairs": "a.jsonl.gz"}, "name two fields"),
        ({"fields": ["en"]}, "fields names the source's and the target's field"),
        ({"max_ratio": float("nan")}, "max_ratio"),
        ({"max_length": 0}, "max_length"),
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


def corpus(pairs: list[tuple[str, str]]) -> ParallelText:
    sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    lines = np.arange(1, len(pairs) + 1)
    return ParallelText(sources, targets, ["file"], np.zeros(len(pairs), np.int32), lines)


PAIRS = st.lists(st.tuples(st.sampled_from("abcdef "), st.sampled_from("uvwxyz")), max_size=80)


@given(pairs=PAIRS, size=st.integers(1, 9), seed=st.integers(0, 3))
def test_held_out_pairs_are_not_trained_on(
    pairs: list[tuple[str, str]], size: int, seed: int
) -> None:
    text = corpus(pairs)
    try:
        held = hold_out(text, DataConfig(valid_size=size), seed)
    except DataError:
        reject()  # too few, or too much alike
    train = set(zip(held.train.source, held.train.target, strict=True))
    valid = list(zip(held.valid.source, held.valid.target, strict=True))
    assert not train & set(valid)
    assert len(set(valid)) == len(valid) <= min(size, max(1, len(text) // 10))
    assert len(held.train) + len(held.valid) + len(held.repeats) == len(text)
    assert train | set(valid) == set(pairs)
    for part in (held.train, held.valid):
        for row in range(len(part)):
            assert pairs[part.origin(row).line - 1] == (part.source[row], part.target[row])


def test_the_held_out_slice_is_spread_and_drawn_by_the_seed() -> None:
    text = corpus([(f"s{n}", f"t{n}") for n in range(1000)])
    drawn = [hold_out(text, DataConfig(valid_size=50), seed).valid for seed in (1, 1, 2)]
    assert drawn[0].source == drawn[1].source != drawn[2].source
    assert [line // 20 for line in drawn[0].line_numbers - 1] == list(range(50))
    assert len(hold_out(text, DataConfig(), 1).valid) == 100


def test_where_repetitions_of_held_out_pairs_stood_is_known() -> None:
    pairs = [(f"s{number % 20}", f"t{number % 20}") for number in range(60)]
    held = hold_out(corpus(pairs), DataConfig(valid_size=4), 1)
    drawn = set(held.valid.source)
    kept = {held.valid.origin(row).line for row in range(len(held.valid))}
    expected = [
        number for number, (source, _) in enumerate(pairs, 1)
        if source in drawn and number not in kept
    ]  # fmt: skip
    assert [origin.line for origin in held.repeats] == expected
    assert len(expected) == 2 * len(drawn)


def test_what_cannot_be_learned_from_is_not_held_out() -> None:
    long, short = "x" * 2000, [(f"s{n}", "t") for n in range(1, 20, 2)]
    pairs = [pair for kept in short for pair in ((long, "t"), kept)]
    held = hold_out(corpus(pairs * 5), DataConfig(valid_size=100), 1)
    assert set(held.valid.source) <= {kept[0] for kept in short}
    assert "give validation files" in refusal(hold_out, corpus([(" ", "t")] * 50), DataConfig(), 1)
    assert "give validation files" in refusal(hold_out, corpus([("s", "t")] * 50), DataConfig(), 1)
    assert "give validation files" in refusal(hold_out, corpus([]), DataConfig(), 1)


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


def test_a_held_out_pair_is_not_trained_on_with_more_white_space_around_it() -> None:
    pairs = [(f"s{n}", f"t{n}") for n in range(10)]
    spaced = [(f"  {source}\t", f"{target} ") for source, target in pairs]
    held = hold_out(corpus(pairs + spaced), DataConfig(valid_size=2), 1)
    drawn = {source.strip() for source in held.valid.source}
    assert drawn and not drawn & {source.strip() for source in held.train.source}
    assert len(held.repeats) == len(drawn)
