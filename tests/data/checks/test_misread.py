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


@pytest.mark.parametrize("encoding", ["cp1250", "cp1251"])
def test_utf8_read_in_an_encoding_with_many_letters_is_damage(encoding: str) -> None:
    clean = [
        "Die Straßenbahn fährt über die Brücke.", "Привет, как дела сегодня вечером?",
        "Příliš žluťoučký kůň úpěl ďábelské ódy.", "Її єдина їжа була ґречною.",
        "Zażółć gęślą jaźń.", "Gă sit ă la fenĂªtre",
    ]  # fmt: skip
    assert damaged(clean, "target") == []
    for row in range(3):
        wrong = clean[row].encode().decode(encoding, "replace")
        if "\ufffd" in wrong:
            continue
        lines = [*clean, wrong]
        assert [each.row for each in damaged(lines, "target")] == [len(clean)], wrong
