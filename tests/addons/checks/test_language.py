"""Character n-grams of lines."""

import random
from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.checks import language
from crosshead.addons.checks.language import (
    LEAST_LINES,
    LEAST_WORDS,
    has_enough,
    letters_of,
    ngrams,
)
from crosshead.addons.checks.suspects import Suspect
from crosshead.system.lines import read_lines
from crosshead.text import scripts
from crosshead.text.synthetic import date_pairs
from tests.addons.checks.made_up import pairs
from tests.addons.vision.captions import captions
from tests.parameters import mostly_slow


def letters(*sides: list[str]) -> list[list[str]]:
    return [*map(letters_of, sides)]


def foreign(lines: list[str], others: list[str], side: str) -> list[Suspect] | None:
    return language.foreign(*letters(lines, others), side)


def exchanged(source: list[str], target: list[str]) -> list[Suspect] | None:
    return language.exchanged(*letters(source, target))[0]


def test_letters_are_words_in_lower_case() -> None:
    assert letters_of([" Am 3. Mai_2019, um 12:30 Uhr! ", "", "a\nÄ"]) == [
        "am mai um uhr",
        "",
        "a ä",
    ]


def test_code_has_no_letters() -> None:
    line = "See <b>%(name)s</b> of {count} at http://x.de/a&b: %s &amp; more, 5 % and %d"
    assert letters_of([line]) == ["see of at more and"]


def test_latin_letters_count_only_in_latin_lines() -> None:
    lines = [
        "GEDCOM-ファイルの読み込みに失敗",
        "Импорт из GeneWeb",
        "Ein schönes α",
        "Файл {name} Äpfel",
    ]
    found = letters_of(lines)
    assert found == ["ファイルの読み込みに失敗", "импорт из", "ein schönes α", "файл äpfel"]
    assert letters_of(found) == found


def test_letters_do_not_depend_on_the_lines_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["Ja, «Äpfel»!", "", "Импорт из x", "one\ntwo 3", "a" * 30, ""]
    whole = letters_of(lines)
    monkeypatch.setattr(scripts, "_BLOCK", 15)
    assert letters_of(lines) == whole and len(whole) == len(lines)


def test_ngrams_are_those_of_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same windows of three characters are the same n-gram, and no window crosses a line."""
    monkeypatch.setattr(language, "_MOST_LETTERS", 5)
    monkeypatch.setattr(language, "_BLOCK", 7)
    rng = random.Random(1)
    lines = ["".join(rng.choices("abä ", k=rng.randrange(7))).strip() for _ in range(300)]
    padded = [f" {line[:5]} " for line in lines]
    windows = [line[at : at + 3] for line in padded for at in range(len(line) - 2)]
    hashes = np.concatenate([block for block, _ in ngrams(lines)])
    assert len(hashes) == len(windows)
    assert len(set(zip(hashes.tolist(), windows, strict=True))) == len(set(windows))
    assert len(set(hashes.tolist())) == len(set(windows))


def test_enough_means_lines_and_different_words() -> None:
    lines = [f"{chr(97 + n % 26)}{chr(97 + n // 26)} und" for n in range(LEAST_WORDS)]
    everything = np.ones(len(lines), bool)
    assert has_enough(lines, everything)
    assert not has_enough(lines, np.arange(len(lines)) < LEAST_LINES - 1)
    assert not has_enough(["wie er sagt"] * len(lines), everything)


def test_means_and_histograms_agree_with_counting() -> None:
    found = ngrams(*letters(["Ab, ab", "", "ab 12 ab"]))
    assert found.lengths.tolist() == [5, 0, 5]  # " ab ab " has five n-grams of three characters
    total, first = found.histogram, found.some(np.array([True, False, False]))
    assert first.lengths.tolist() == [5]
    np.testing.assert_array_equal(total, 2 * first.histogram)
    np.testing.assert_allclose(found.means(np.ones(len(total))), [1, 0, 1])
    many = ngrams(["ab ab"] * 2500).some(np.arange(2500) % 1250 == 7)
    np.testing.assert_array_equal(many.some(np.array([True, True])).histogram, total)


def test_lines_in_a_third_language_are_found_and_no_others() -> None:
    source, target = pairs(600)
    _, others = pairs(600, ("source", "other"))
    wrong = list(range(0, 600, 40))
    for row in wrong:
        target[row] = others[row]
    found = foreign(target, source, "target") or []
    assert [each.row for each in found] == wrong
    assert {each.reason for each in found} == {
        "the target is in another language than the other targets"
    }
    assert foreign(source, target, "source") == []


@pytest.mark.parametrize("every", [50, 20, 5, 4])
def test_few_and_many_lines_in_another_language_are_found_in_a_small_text(every: int) -> None:
    source, target = pairs(300)
    _, others = pairs(300, ("source", "other"))
    wrong = list(range(0, 300, every))
    for row in wrong:
        target[row] = others[row]
    assert [each.row for each in foreign(target, source, "target") or []] == wrong


@pytest.mark.parametrize(
    ("size", "every"),
    mostly_slow([(600, 20), (600, 5), (2000, 50), (2000, 5)], [(600, 20), (2000, 5)]),
)
def test_french_lines_are_found_among_german_ones(size: int, every: int, data: Path) -> None:
    lines = {
        name: read_lines(data / "multi30k" / "raw" / f"train.{name}")[2000 : 2000 + size]
        for name in ("en", "de", "fr")
    }
    wrong = set(range(0, size, every))
    mixed = [lines["fr" if row in wrong else "de"][row] for row in range(size)]
    found = {each.row for each in foreign(mixed, lines["en"], "target") or []}
    assert len(found & wrong) >= 0.9 * len(wrong) and not found - wrong


def test_lines_on_another_topic_are_in_the_same_language(data: Path) -> None:
    """Sentences on sports are so alike that they would make a group of their own."""
    captions = [read_lines(data / "multi30k" / "raw" / f"train.{name}") for name in ("cs", "en")]
    assert foreign(*captions, "target") == []


@pytest.fixture(scope="module")
def dates() -> list[tuple[str, str]]:
    return list(date_pairs().train)


def test_dates_among_captions_are_no_other_language(
    data: Path, dates: list[tuple[str, str]]
) -> None:
    """Dates differ from captions on both sides."""
    english, german = (
        read_lines(data / "multi30k" / "raw" / f"train.{name}")[:2000] for name in ("en", "de")
    )
    for source, target in dates[:300]:
        english.append(source)
        german.append(target)
    assert foreign(german, english, "target") == foreign(english, german, "source") == []


@pytest.mark.parametrize("size", [1000, 3000])
def test_a_text_of_few_words_is_not_judged(size: int, dates: list[tuple[str, str]]) -> None:
    """In a list of dates, the lines of one weekday differ from the rest as a language does."""
    english, german = (list(side) for side in zip(*dates[:size], strict=True))
    assert foreign(german, english, "target") is None
    assert foreign(english, german, "source") is None


def test_names_in_another_script_are_no_other_language() -> None:
    """Lines with the same names or marks would make a group of their own."""
    source, target = pairs(600)
    russian = str.maketrans("lmnrio", "лмнрио")
    target = [line.translate(russian) for line in target]
    for row in range(0, 600, 20):
        target[row] = f"{target[row]} %(gramps_name)s Gramps Relationship"
    assert foreign(target, source, "target") == []


def test_a_text_of_rare_ngrams_has_no_second_group() -> None:
    """Words of two characters out of thousands, as in Chinese: most n-grams between words are rare.

    Some lines have words of one topic, as the messages of programs do.
    """
    rng = random.Random(1)
    source, _ = pairs(1000)
    usual, topic = (
        ["".join(chr(0x4E00 + rng.randrange(2000)) for _ in range(2)) for _ in range(count)]
        for count in (80, 5)
    )
    target = [
        "".join(
            rng.choice(topic if row % 10 == 0 and rng.random() < 0.5 else usual) for _ in range(6)
        )
        for row in range(1000)
    ]
    assert foreign(target, source, "target") == []


def test_a_single_line_in_the_language_of_the_other_side_is_found() -> None:
    source, target = pairs(600)
    target[17] = source[17]
    found = foreign(target, source, "target") or []
    assert [(each.row, each.reason) for each in found] == [
        (17, "the target is in the language of the opposite side")
    ]


def test_one_language_has_no_suspects_even_if_an_odd_line_is_repeated() -> None:
    source, target = pairs(600)
    for row in range(0, 600, 60):
        target[row] = f"{row}: qwx qwxq xwq wqx!"
    assert foreign(target, source, "target") == []


def test_a_very_long_line_does_not_outweigh_the_others(data: Path) -> None:
    english, german = (
        read_lines(data / "multi30k" / "raw" / f"train.{name}")[:600] for name in ("en", "de")
    )
    english.append("a man")
    german.append("x" * 1_000_000)
    assert foreign(german, english, "target") == []


def test_short_lines_and_small_sides_are_not_judged() -> None:
    source, target = pairs(600)
    assert foreign(["12:30"] * 600, source, "target") is None
    assert foreign(target[:45] + source[:45], source, "target") is None


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.45, 0.5])
def test_exchanged_captions_are_found(share: float) -> None:
    source, target = captions(1000)
    rows = random.Random(1).sample(range(1000), round(1000 * share))
    for row in rows:
        source[row], target[row] = target[row], source[row]
    found = exchanged(source, target)
    assert {each.kind for each in found} <= {"exchanged"}
    assert all(0.4 < each.score < 1 for each in found)
    chosen = {each.row for each in found}
    if share == 0.5:  # nothing tells which half is exchanged
        assert chosen in ({*rows}, {*range(1000)} - {*rows})
    else:
        assert chosen == {*rows}


def test_two_sides_in_one_language_have_no_exchanged_pairs() -> None:
    for size in (200, 1000, 4000):
        assert exchanged(captions(size)[0], captions(size, seed=2)[0]) == []


def test_a_small_text_is_not_judged() -> None:
    source, target = pairs(90)
    assert exchanged([*source[:45], *target[45:]], [*target[:45], *source[45:]]) is None
