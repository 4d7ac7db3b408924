import random
import re
import unicodedata
from functools import cache

import pytest

from crosshead.addons.checks import check, forms, pair_odds, repeats
from crosshead.addons.checks.check import REPEATS, DataReport, check_kinds, check_pairs
from crosshead.addons.checks.suspects import KINDS, Suspect
from crosshead.errors import DataError
from crosshead.text.parallel.pairs import Origin, ParallelText, Sides
from tests.addons.checks.made_up import pairs
from tests.parameters import mostly_slow

ROWS = 600


def damaged() -> Sides:
    """A text with a pair of each kind, except for overlap."""
    source, target = pairs(ROWS)
    _, other = pairs(ROWS, ("source", "other"))
    target[0], target[1] = "", source[1]
    target[2] += " \ufffd"
    target[3] += unicodedata.normalize("NFD", " lö")
    target[4] = f"<p>{target[4]}</p>"
    for row in range(6, 12):
        target[row] = other[row]
    for row in range(22, 28):
        source[row], target[row] = target[row], source[row]
    target[12] = target[12][:3]
    target[13], target[14] = target[14], target[13]
    target[15] = "404 -"
    for row in range(32, 42):
        source[row], target[row] = f"{source[row]} {row}", f"{target[row]} {row}"
    target[33] = f"{target[33][:-2]}99"
    return [*source, source[20], source[21]], [*target, target[20], f"{target[21]} lo"]


@cache
def report(skip: tuple[str, ...] = ()) -> DataReport:
    sides = damaged()
    held = ParallelText([sides[0][30]], [sides[1][30]], [Origin("v", 1)])
    return check_pairs(sides, lambda row: Origin("f", row + 1), [held], skip)


def test_progress_rises_from_nothing_to_the_whole() -> None:
    seen: list[float] = []
    check_pairs(pairs(9), lambda row: Origin("f", 1), advance=lambda share, _: seen.append(share))
    assert seen == sorted(seen) and seen[0] == 0 and seen[-1] == 1 and len(seen) > 2


def test_every_kind_is_found_and_counted() -> None:
    found = report()
    rows: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for suspect in found.suspects:
        rows[suspect.kind].append(suspect.row)
    assert rows == {
        "empty": [0], "identical": [1], "placeholder": [15], "encoding": [2],
        "unicode": [3], "mark-up": [4],
        "exchanged": [*range(22, 28)],
        "language": [6, 7, 8, 9, 10, 11], "length": [12],
        "misaligned": [13, 14], "number": [33], "duplicate": [600], "near-duplicate": [601],
        "overlap": [30],
    }  # fmt: skip
    assert found.counts() == {kind: len(each) for kind, each in rows.items()}
    assert found.rows() == sorted({row for each in rows.values() for row in each})


@pytest.mark.parametrize("kind", mostly_slow(KINDS, list(KINDS)[::2]))
def test_a_skipped_kind_is_not_found_and_does_not_change_the_others(kind: str) -> None:
    others = [each for each in report().suspects if each.kind != kind]
    assert report((kind,)).suspects == others


def test_several_kinds_are_skipped_together() -> None:
    whole = report().counts().keys()
    assert report(REPEATS).counts().keys() == whole - set(REPEATS)
    compared = ("language", "misaligned", "length")
    assert report(compared).counts().keys() == whole - set(compared)


def test_empty_pairs_are_no_duplicates() -> None:
    source, target = pairs(120)
    for row in (7, 50, 90):
        source[row] = target[row] = ""
    found = check_pairs((source, target), lambda row: Origin("f", row + 1))
    assert found.counts() == {"empty": 3}


def test_identical_sides_are_not_of_another_language_if_they_are_skipped() -> None:
    kinds = [each.kind for each in report(("empty", "identical")).suspects if each.row == 1]
    assert kinds == []


def test_the_cleaned_text_lacks_the_suspects_and_repairs_unicode() -> None:
    found, sides = report(), damaged()
    source, target = found.cleaned()
    kept = [row for row in range(len(found)) if row not in found.rows() or row == 3]
    assert source == [sides[0][row] for row in kept]
    assert target[0] == unicodedata.normalize("NFC", sides[1][3])
    assert target[1:] == [sides[1][row] for row in kept[1:]]
    parts = [found.cleaned(first, first + 100) for first in range(0, 700, 100)]
    assert [line for part in parts for line in part[0]] == source


def test_a_check_of_the_cleaned_text_finds_nothing() -> None:
    assert check_pairs(report().cleaned(), lambda row: Origin("f", row + 1)).suspects == []


def test_many_misaligned_pairs_bring_a_verdict() -> None:
    def verdict(source: list[str], target: list[str]) -> str:
        return check_pairs((source, target), lambda row: Origin("f", row + 1)).verdict

    source, target = pairs(ROWS)
    assert verdict(source, target) == verdict(source, target[:-60] + target[:-61:-1]) == ""
    whole = verdict(source, target[-2:] + target[:-2])
    assert re.search(
        "misaligned: at f:[1-9] the target translates the source 2 lines above; repair the", whole
    )
    part = verdict(source[:-1], target[:200] + target[201:])
    assert re.search(
        "an estimated [67].% .* at f:(199|20.) the target .* 1 line below; repair", part
    )
    shuffled = target[:300] + random.Random(1).sample(target[300:], 300)
    for text in (shuffled, random.Random(1).sample(target, ROWS)):
        assert "do not belong together line by line; repair the files" in verdict(source, text)


@pytest.mark.parametrize("every", mostly_slow([20, 3, 2], [20, 2]))
def test_exchanged_sides_are_found_and_named(every: int) -> None:
    source, target = pairs(ROWS)
    for row in range(0, ROWS, every):
        source[row], target[row] = target[row], source[row]
    report = check_pairs((source, target), lambda row: Origin("f", row + 1))
    assert report.counts() == {"exchanged": ROWS / every}
    share = f"{1 / every:.0%} of the pairs have exchanged sides; exchange them back"
    assert report.verdict.startswith(share)


def test_the_same_text_on_both_sides_is_named() -> None:
    source, _ = pairs(ROWS)
    found = check_pairs((source, source), lambda row: Origin("f", row + 1))
    assert found.verdict == (
        "both sides hold the same text in 100% of the pairs; translate one of them"
    )
    assert found.counts() == {"identical": ROWS}


def test_stretches_have_one_shift_each() -> None:
    source, target = pairs(902)
    del source[900:], target[600], target[300]
    found = check_pairs((source, target), lambda row: Origin("f", row + 1)).stretches()
    assert [(first.shift, last.shift) for first, last in found] == [(1, 1), (2, 2)]
    ends = [row for first, last in found for row in (first.row, last.row)]
    assert all(
        abs(row - wanted) <= 5 for row, wanted in zip(ends, (300, 599, 600, 899), strict=True)
    )


def test_a_few_rows_do_not_end_a_stretch() -> None:
    rows = [*range(10), *range(13, 20), *range(24, 30)]
    suspects = [Suspect(row, "misaligned", 1.0, "it", 1) for row in rows]
    found = DataReport(([], []), suspects, lambda row: Origin("f", row + 1)).stretches()
    assert [(first.row, last.row) for first, last in found] == [(0, 19), (24, 29)]


def test_a_note_counts_the_suspect_pairs_that_nothing_is_learned_from() -> None:
    source, target = pairs(ROWS)
    shifted = [*target[1:], target[0]]
    notes = check_pairs((source, shifted), lambda row: Origin("f", row + 1)).notes
    [found] = [each for each in notes if " kind length " in each]
    left = re.fullmatch(r".* pairs that are not suspect otherwise, found (\d+) of 600", found)
    assert left is not None and int(left[1]) < 100


def test_too_few_pairs_bring_a_note() -> None:
    source, target = pairs(40)
    notes = check_pairs((source, target), lambda row: Origin("f", row + 1)).notes
    kinds = ["exchanged", "language", "misaligned", "length"]
    assert [note.split()[5] for note in notes] == kinds
    assert "at least 100 different lines of 10 or more letters" in notes[0]
    assert "at least 500 pairs that are not suspect otherwise, found 40 of 40" in notes[2]
    found = check_pairs((source, target), lambda row: Origin("f", row + 1), skip=kinds[1:])
    assert found.notes == notes[:1]


def test_an_empty_text_has_no_suspects() -> None:
    assert check_pairs(([], []), lambda row: Origin("f", row + 1)).suspects == []


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(DataError, match="unknown kind of pairs 'typo'; expected some of empty, "):
        check_kinds(["empty", "typo"])


def test_all_parts_of_a_text_in_both_directions_keep_the_same_direction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half = pairs(4 * ROWS, ("source", "target"))
    both = half[0] + half[1], half[1] + half[0]
    monkeypatch.setattr(check, "_AT_ONCE", ROWS)
    report = check_pairs(both, lambda row: Origin("f", row + 1))
    found = {each.row < 4 * ROWS for each in report.suspects if each.kind == "exchanged"}
    assert len(found) == 1
    assert report.counts()["exchanged"] > 3.5 * ROWS


def test_a_large_text_is_checked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = pairs(6 * ROWS)
    target[ROWS : ROWS + 50] = target[ROWS + 1 : ROWS + 51]
    for row in range(0, 6 * ROWS, 90):
        target[row] = " ".join(target[row].split()[:1])
        source[row + 1], target[row + 1] = source[row + 2], target[row + 2]
    whole = check_pairs((source, target), lambda row: Origin("f", row + 1))
    monkeypatch.setattr(repeats, "_PAIRS", 500)
    for module in (forms, pair_odds):
        monkeypatch.setattr(module, "_MOST_FITTED", 4 * ROWS)
    parts = check_pairs((source, target), lambda row: Origin("f", row + 1))
    for kind in ("length", "misaligned", "duplicate"):
        found, again = (
            {each.row for each in of.suspects if each.kind == kind} for of in (whole, parts)
        )
        assert len(found) > 20 and len(found ^ again) < 0.1 * len(found)


def test_languages_are_compared_in_parts_that_no_order_of_the_text_fills(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (source, target), (_, other) = (
        pairs(4 * ROWS, ("source", name)) for name in ("target", "other")
    )
    target[::4] = other[::4]
    whole = check_pairs((source, target), lambda row: Origin("f", row + 1))
    monkeypatch.setattr(check, "_AT_ONCE", 2 * ROWS)
    parts = check_pairs((source, target), lambda row: Origin("f", row + 1))
    found, again = (
        {each.row for each in of.suspects if each.kind == "language"} for of in (whole, parts)
    )
    assert len(found & set(range(0, 4 * ROWS, 4))) > 0.9 * ROWS
    assert len(found ^ again) < 0.1 * len(found)
