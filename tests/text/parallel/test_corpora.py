import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from crosshead.errors import DataError
from crosshead.text.parallel.corpora import Part, read_aligned, read_pairs, read_valid_pairs, survey
from crosshead.text.parallel.pairs import Origin
from crosshead.text.parallel.section import DataConfig
from tests.text.written import config, refusal, write


@pytest.fixture
def part(tmp_path: Path) -> Part:
    (tmp_path / "a.en").write_text("one\n\nthree\n")
    (tmp_path / "a.de").write_text("eins\n\ndrei\n")
    return Part((str(tmp_path / "a.en"), str(tmp_path / "a.de")), [])


def test_a_corpus_is_read_with_its_tag_and_with_exchanged_sides(part: Part) -> None:
    assert list(part.chunks()) == [(["one", "", "three"], ["eins", "", "drei"])]
    assert part.direction == ()
    tagged = replace(part, tag="<2de>")
    assert list(tagged.chunks()) == [(["<2de> one", "", "<2de> three"], ["eins", "", "drei"])]
    back = replace(part, tag="<2en>", exchanged=True)
    assert list(back.chunks()) == [(["<2en> eins", "", "<2en> drei"], ["one", "", "three"])]
    assert len({part.direction, tagged.direction, back.direction}) == 3


def test_a_pair_of_exchanged_sides_comes_from_the_file_of_its_source(part: Part) -> None:
    text = survey([replace(part, tag="<2de>"), replace(part, tag="<2en>", exchanged=True)])
    assert len(text) == 6
    assert text.origin(2) == Origin(part.files[0], 3)
    assert text.origin(5) == Origin(part.files[1], 3)
    assert text.read().source[5] == "<2en> drei"


def test_a_side_that_is_a_table_is_refused(part: Part, tmp_path: Path) -> None:
    assert part.notes() == []
    table = tmp_path / "a.en"
    table.write_text("one\teins\ntwo\tzwei\n")
    with pytest.raises(DataError, match=r"a\.en: a table, expected text with one"):
        list(Part((part.files[0], str(table)), []).chunks())


def test_reading_can_be_stopped(part: Part) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        survey([replace(part, stop_if_asked=stop)])


def test_a_corpus_without_text_is_refused(part: Part) -> None:
    for name in part.files:
        Path(name).write_text("\n\n")
    with pytest.raises(DataError, match="no pair has text on both sides"):
        survey([part])


def test_unequal_files_are_named_with_both_counts(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", "a\nb\n"), write(tmp_path / "two", "a\n")
    message = refusal(read_aligned, one, two)
    assert f"{one} has 2 lines but {two} has 1" in message
    assert f"{two} has 1 line but {one} has 2" in refusal(read_aligned, two, one)
    empty = write(tmp_path / "empty", "")
    assert "are empty" in refusal(read_aligned, empty, empty)


def test_further_lines_of_one_file_are_refused(tmp_path: Path) -> None:
    two = write(tmp_path / "two", "a\nb\n")
    text = write(tmp_path / "text", "a\nb\n\nc\n")
    assert "has 2; line n of one must be the translation" in refusal(read_aligned, text, two)


def test_several_corpora_of_every_kind_with_their_origins(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a.en", "one\ntwo\n"),
        write(tmp_path / "b.en.gz", "three\n"),
        write(tmp_path / "a.de", "eins\nzwei"),
        write(tmp_path / "b.de", "drei\r\n"),
        write(tmp_path / "c.tsv.gz", "id\tde\ten\n7\tvier\tfour\n8\tf\u2028nf\tfive\n"),
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


def test_aligned_files_are_compared_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crosshead.text.parallel.corpora.CHUNK", 3)
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
                assert said.startswith(f"{pipe}: a pipe or a device, but text is read")
            said = refusal(read, config(pairs=[pipe], valid_pairs=[pipe]))
            assert said.startswith(f"{pipe}: a pipe")
    finally:
        os.close(out)
        os.close(into)


def test_the_old_domain_comes_last(tmp_path: Path) -> None:
    for name in "abcdvw":
        (tmp_path / name).write_text(f"{name}\n")
    names = {key: [tmp_path / file] for key, file in zip(
        ("source", "target", "old_source", "old_target", "valid_source", "valid_target"), "abcdvw",
        strict=True,
    )}  # fmt: skip
    data = config(**names, old_valid_source=[tmp_path / "w"], old_valid_target=[tmp_path / "v"])
    assert read_pairs(data).source == ["a", "c"]
    new, old = read_valid_pairs(data), read_valid_pairs(data, old=True)
    assert new is not None and old is not None
    assert (new.source, old.source) == (["v"], ["w"])
    assert read_valid_pairs(config(**{key: names[key] for key in ("source", "target")})) is None


def test_the_old_domain_has_fields_of_its_own(tmp_path: Path) -> None:
    new = write(tmp_path / "new.tsv", "id\ten\tde\n1\ta\tA\n")
    old = write(tmp_path / "old.tsv", "b\tB\n")
    data = config(
        pairs=new, valid_pairs=new, fields=["en", "de"],
        old_pairs=old, old_valid_pairs=old, old_fields=["2", "1"],
    )  # fmt: skip
    assert read_pairs(data).source == ["a", "B"]
    found = read_valid_pairs(data, old=True)
    assert found is not None and found.target == ["b"]
