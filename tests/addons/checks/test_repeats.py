import random
import unicodedata

import pytest

from crosshead.addons.checks import repeats
from crosshead.addons.checks.repeats import repeated
from crosshead.text.parallel.pairs import Origin, ParallelText, composed
from crosshead.text.scripts import split_words
from tests.addons.checks.made_up import pairs


def place(row: int) -> str:
    return f"f:{row + 1}"


def kinds(source: list[str], target: list[str]) -> list[tuple[int, str, str]]:
    return [(s.row, s.kind, s.reason) for s in repeated((source, target), [], place)]


def test_each_kind_names_the_earlier_pair() -> None:
    source, target = pairs(20)
    first = source[3].split()
    source += [source[3], f" {source[3].upper()}!", " ".join(first[1:]), " ".join(["new", *first])]
    target += [f"{target[3]} ", target[3], target[3], target[3]]
    assert kinds(source, target) == [
        (20, "duplicate", "repeats f:4"),
        (21, "near-duplicate", "nearly repeats f:4"),
        (22, "near-duplicate", "nearly repeats f:4"),
        (23, "near-duplicate", "nearly repeats f:4"),
    ]


def test_a_pair_may_repeat_pairs_that_are_dropped() -> None:
    source, target = pairs(20)
    source = [f"{source[3]} &nbsp;", *source, source[3]]
    target = [target[3], *target, target[3]]
    found = [(s.row, s.kind, s.reason) for s in repeated((source, target), [], place, {0})]
    assert found == [
        (21, "duplicate", "repeats f:5"), (0, "near-duplicate", "nearly repeats f:5"),
    ]  # fmt: skip


def test_unicode_forms_hide_no_repeats() -> None:
    source, target = pairs(20)
    source[3], target[3] = f"café {source[3]}", f"über {target[3]}"
    source.append(unicodedata.normalize("NFD", source[3]))
    target.append(unicodedata.normalize("NFD", target[3]))
    assert kinds(source, target) == [(20, "duplicate", "repeats f:4")]
    near = source[20] + " x", target[20]
    scores = [
        repeated(([source[3], form(near[0])], [target[3], form(near[1])]), [], place)[0].score
        for form in (str, composed)
    ]
    assert scores[0] == scores[1]
    held = ParallelText(source[20:], target[20:], [Origin("v", 1)])
    [overlap, _] = repeated((source, target), [held], place)
    assert (overlap.row, overlap.kind, overlap.score) == (3, "overlap", 1.0)


def test_two_other_words_or_short_pairs_are_no_near_duplicates() -> None:
    source, target = pairs(1)
    source += [" ".join(["new", *source[0].split()[1:]]), "a dog", "a cat"]
    target += [" ".join(["neu", *target[0].split()[1:]]), "ein Hund", "ein Hund"]
    assert kinds(source, target) == []


def test_near_duplicates_are_those_of_comparing_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few words, so that many pairs are near one another, and hashed a few at a time."""
    monkeypatch.setattr(repeats, "_PAIRS", 7)
    rng = random.Random(3)
    sides = [[" ".join(rng.choices("abc", k=rng.randint(3, 6))) for _ in range(120)] for _ in "xy"]
    bags = [
        [f"{n}{word}" for n, side in enumerate(pair) for word in split_words(side)]
        for pair in zip(*sides, strict=True)
    ]

    def near(one: list[str], two: list[str]) -> bool:
        rest = list(two)
        for word in one:
            if word in rest:
                rest.remove(word)
        common = len(two) - len(rest)
        return min(len(one), len(two)) >= 8 and max(len(one), len(two)) - common <= 1

    expected = {row for row in range(120) if any(near(bags[row], bags[e]) for e in range(row))}
    found = {each.row for each in repeated((sides[0], sides[1]), [], place)}
    short = {row for row in found if len(bags[row]) < 8}
    assert found - short == expected and 0 < len(expected) < 120


def test_pairs_of_held_sets_overlap() -> None:
    source, target = pairs(12)
    held = ParallelText(source[:3], target[:3], [Origin("v", n) for n in (1, 2, 3)])
    changed = " ".join(target[1].split()[1:])
    found = repeated(
        ([*source[3:], *source[:3]], [*target[3:], target[0], changed, "other"]), [held], place
    )
    assert [(each.row, each.kind, each.score > 0.5, each.reason) for each in found] == [
        (9, "overlap", True, "repeats v:1"),
        (10, "overlap", True, "nearly repeats v:2"),
        (11, "overlap", False, "the source repeats that of v:3"),
    ]
