import pytest

from crosshead.errors import DataError
from crosshead.text.documents.document import rebuilt, texts_of
from crosshead.text.documents.subtitles import subtitle_parts

TIMES = ["00:00:01,000 --> 00:00:02,500", "00:00:03,000 --> 00:00:04,000"]


def shouted(document: str) -> str:
    parts = subtitle_parts(document)
    return rebuilt(parts, [text.upper() for text in texts_of(parts)])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_numbers_and_times_stay(end: str) -> None:
    lines = ["1", TIMES[0], "A man walks", "down the street.", "", "2", TIMES[1], "Alone.", ""]
    document = end.join(lines)
    assert texts_of(subtitle_parts(document)) == ["A man walks down the street.", "Alone."]
    found = shouted(document).split(end)
    assert [found[0], found[1], found[4], found[5], found[6]] == ["1", TIMES[0], "", "2", TIMES[1]]
    assert " ".join(found[2:4]) == "A MAN WALKS DOWN THE STREET." and found[7] == "ALONE."


def test_a_tag_is_not_broken() -> None:
    tag = '<font color="red" face="a very long name">'
    found = shouted(f"1\n{TIMES[0]}\nOne {tag}two\nthree</font> four.\n")
    assert tag.upper() in found and found.count("\n") == 4


def test_speakers_keep_their_lines() -> None:
    document = f"1\n{TIMES[0]}\n- Who?\n- <i>Me</i>, me.\n"
    assert shouted(document) == f"1\n{TIMES[0]}\n- WHO?\n- <I>ME</I>, ME.\n"


def test_a_file_without_times_is_refused() -> None:
    with pytest.raises(DataError, match="no line has the times of a subtitle"):
        subtitle_parts("just text\n")
