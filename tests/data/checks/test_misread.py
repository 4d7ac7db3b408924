"""Tests of text that was decoded with a wrong encoding."""

import pytest

from crosshead.data.checks.encoding import damaged

USUAL = ["Für Öl müssen wir größere Fässer kaufen.", "„Das“ – so heißt es."]


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("line", ["für alle", "Öl über Öl", "größer"])
def test_utf8_read_in_another_encoding_is_damage(line: str, encoding: str) -> None:
    misread = line.encode().decode(encoding)
    found = damaged([*USUAL, misread], "target")
    assert [each.row for each in found] == [2] and found[0].score == 1.0


def test_wrong_letters_are_found_in_words_that_no_other_line_has() -> None:
    wrong = [
        line.encode("cp1250").decode("cp1252") for line in ("je tu něco", "kde je něco", "věděl")
    ]
    found = damaged(["je tu něco"] * 9 + wrong, "target")
    assert [each.row for each in found] == [9, 10, 11]
    assert found[2].reason == "the target has 'vìdìl', probably 'věděl' in a wrong encoding"


CLEAN = [
    "Die Brücke führt über den Fluss.", "Le café est là.", "Zażółć gęślą jaźń.",
    "Привет, как дела сегодня вечером?", "Її єдина їжа була ґречною.", "Gă sit ă la fenĂªtre",
]  # fmt: skip


@pytest.mark.parametrize("encoding", ["cp1250", "cp1251", "iso8859_2"])
@pytest.mark.parametrize("line", CLEAN[:2])
def test_utf8_read_in_an_encoding_with_many_letters_is_damage(line: str, encoding: str) -> None:
    assert damaged(CLEAN, "target") == []
    lines = [*CLEAN, line.encode().decode(encoding)]
    assert [each.row for each in damaged(lines, "target")] == [len(CLEAN)]
