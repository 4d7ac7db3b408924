import unicodedata

import pytest

from crosshead.data.checks.forms import (
    damaged,
    decomposed,
    doubled,
    empty_or_identical,
    mark_up,
)
from crosshead.data.parallel.pairs import composed

USUAL = ["Für Öl müssen wir größere Fässer kaufen.", "„Das“ – so heißt es."]


def test_empty_and_identical_sides() -> None:
    found = empty_or_identical(["a", " ", "b", "x y ", "1984"], ["", "c", "\t", "x y", "1984"])
    assert [(each.row, each.kind, each.reason) for each in found] == [
        (0, "empty", "the target is empty"),
        (1, "empty", "the source is empty"),
        (2, "empty", "the target is empty"),
        (3, "identical", "both sides are the same"),
    ]


def test_one_side_that_is_a_text_twice_is_doubled() -> None:
    source = ["a red cat", "so it is so it is", "a b c.", "no no", "ab ba ab", "a b ca b c"]
    target = ["x y z x y z", "x y z x y z", "w v u", "x", "y", "z"]
    found = doubled(source, target)
    assert [(each.row, each.kind, each.reason) for each in found] == [
        (0, "doubled", "the target is one text twice"),
        (5, "doubled", "the source is one text twice"),
    ]


@pytest.mark.parametrize("character", ["\u200b", "\u00ad", "\u2060", "\ufeff"])
def test_invisible_characters_are_damage(character: str) -> None:
    (found,) = damaged([*USUAL, f"Häu{character}ser"], "target")
    reason = f"the target has the invisible character U+{ord(character):04X}"
    assert (found.row, found.score, found.reason) == (2, 1.0, reason)


@pytest.mark.parametrize("space", ["\u00a0", "\u202f"])
def test_a_no_break_space_inside_a_word_is_damage(space: str) -> None:
    lines = [*USUAL, f"Die neuen{space}Fäs{space}ser sind voll.", f"die neuen{space}"]
    (found,) = damaged(lines, "target")
    assert (found.row, found.kind, found.score) == (2, "encoding", 1.0)
    assert found.reason == "the target has a no-break space inside 'Fässer'"


@pytest.mark.parametrize(
    "line",
    [
        "Pourquoi\u202f? Non\u00a0! Voici\u00a0: «\u00a0Öl\u00a0», 12\u202f000\u00a0Fässer",
        "z.\u00a0B. die Nummer\u00a028, Mädchen\u00a0– und 5\u00a0Meter",
        "v\u00a0domě a k\u00a0lesu",  # Czech
        "Müssen\u00a0wir Fässer\u00a0kaufen?",  # between words
        "so\u00a0heißt", "Fass\u00a0bier",
    ],
)  # fmt: skip
def test_a_no_break_space_elsewhere_is_no_damage(line: str) -> None:
    lines = [*USUAL, "Das Fass steht da, und Bier auch.", "Fassbier vdomě klesu soheißt", line]
    assert damaged(lines, "target") == []


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("line", ["für alle", "Öl über Öl", "größer"])
def test_utf8_read_in_another_encoding_is_damage(line: str, encoding: str) -> None:
    misread = line.encode().decode(encoding)
    found = damaged([*USUAL, misread], "target")
    assert [each.row for each in found] == [2] and found[0].score == 1.0


@pytest.mark.parametrize(
    ("line", "score"), [("a\x00b", 1.0), ("caf\ufffd", 1.0), ("\x93so\x94", 1.0), ("M?nchen", 0.5)]
)
def test_characters_that_are_no_text_are_damage(line: str, score: float) -> None:
    assert [(each.row, each.score) for each in damaged([*USUAL, line], "target")] == [(2, score)]


@pytest.mark.parametrize(
    "line",
    ["«CAFÉ» et «À»", "Wirklich? Ja!", "http://x.de/a?b=c", "a\tb", "Ärger, Ãos", "…", "¿Qué?"],
)
def test_usual_characters_are_no_damage(line: str) -> None:
    assert damaged([*USUAL, line], "target") == []


def test_decomposed_characters_are_found_and_composed() -> None:
    apart = unicodedata.normalize("NFD", USUAL[0])
    found = decomposed([USUAL[0], apart, "ascii"], "source")
    assert [(each.row, each.kind) for each in found] == [(1, "unicode")]
    assert composed(apart) == USUAL[0]


def test_mark_up_is_suspect_on_one_side_or_if_it_is_most_of_the_text() -> None:
    pairs = [
        ("Click <b>here</b> to see the list", "Klicken Sie <b>hier</b>, um die Liste zu sehen"),
        ("<br>a", "b"),
        ("a < b and c > d", "a < b und c > d"),
        ("<td><tr>x</tr></td>", "<td><tr>y</tr></td>"),
        ("Tom & Ann", "Tom &amp; Ann"),
        ("[[File]]", "{{Datei}}"),
    ]
    found = mark_up([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    assert [each.row for each in found] == [1, 3, 4, 5]
    assert found[0].reason == "only the source has '<br>'"
    assert found[1].score == pytest.approx(18 / 19)
    [beside_nothing] = mark_up(["<b>Hello</b>"], [""])
    assert beside_nothing.reason == "only the source has '<b>'"
