from dataclasses import replace
from pathlib import Path

import pytest

from crosshead.errors import DataError
from crosshead.text.parallel.pairs import Origin
from crosshead.text.parallel.parts import Part, survey


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
