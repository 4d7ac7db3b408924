import unicodedata

import pytest

from crosshead.addons.checks.forms import TAG, decomposed, empty_or_identical, looped, mark_up
from crosshead.text.parallel.pairs import composed

USUAL = "Für Öl müssen wir größere Fässer kaufen."


def test_empty_and_identical_sides() -> None:
    found = empty_or_identical(["a", " ", "b", "x y ", "1984"], ["", "c", "\t", "x y", "1984"])
    assert [(each.row, each.kind, each.reason) for each in found] == [
        (0, "empty", "the target is empty"),
        (1, "empty", "the source is empty"),
        (2, "empty", "the target is empty"),
        (3, "identical", "both sides are the same"),
    ]


def test_one_side_that_is_a_loop_is_doubled() -> None:
    loop, phrase = f"a man{' with' * 15}", " ".join(["a man in a red shirt"] * 3)
    source = [loop, "a man", phrase, loop, "1 1 1 1 1", USUAL]
    target = ["ein Mann", f"ein Mann{' mit' * 15}", "ein Mann", f"ein{' mit' * 9}", "eins", USUAL]
    assert [(each.row, each.reason) for each in looped(source, target)] == [
        (0, "the source repeats a phrase many times"),
        (1, "the target repeats a phrase many times"),
        (2, "the source repeats a phrase many times"),
    ]


def test_decomposed_characters_are_found_and_composed() -> None:
    apart = unicodedata.normalize("NFD", USUAL)
    found = decomposed([USUAL, apart, "ascii"], "source")
    assert [(each.row, each.kind) for each in found] == [(1, "unicode")]
    assert composed(apart) == USUAL


def test_mark_up_is_suspect_on_one_side() -> None:
    pairs = [
        ("Click <b>here</b> to see the list", "Klicken Sie <b>hier</b>, um die Liste zu sehen"),
        ("<br>a", "b"),
        ("a < b and c > d", "a < b und c > d"),
        ("<td><tr>x</tr></td>", "<td><tr>y</tr></td>"),
        ("Tom & Ann", "Tom &amp; Ann"),
    ]
    found = mark_up([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    assert [each.row for each in found] == [1, 4]
    assert found[0].reason == "only the source has '<br>'"
    [beside_nothing] = mark_up(["<b>Hello</b>"], [""])
    assert beside_nothing.reason == "only the source has '<b>'"


@pytest.mark.parametrize(
    "line",
    [
        "if a<b and b>c",
        "Type <Enter> or <Strg>",
        "<name@example.com> wrote",
        "1 <x + y> 2",
        "<https://x.de/a>",
        "much on R&D; the others do not",
    ],
)
def test_text_in_angle_brackets_is_no_mark_up(line: str) -> None:
    assert mark_up([line], ["x"]) == []


@pytest.mark.parametrize(
    "tag",
    [
        "<strong>",
        "</p>",
        "<br />",
        "<a href='x' title=\"y z\">",
        "<v:shape id=5/>",
        "&nbsp;",
        "&frac12;",
        "&#XE4;",
    ],
)
def test_tags_on_one_side_are_mark_up(tag: str) -> None:
    assert len(mark_up([f"text {tag} here"], ["x"])) == 1


def test_a_long_line_of_open_tags_is_searched_in_one_pass() -> None:
    """With a pass for each of its tags, this would take minutes."""
    assert TAG.findall("<a b=c d " * 50_000 + "<a" + " " * 100_000) == []
