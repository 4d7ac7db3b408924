"""Pairs with an ambiguous word: German that follows from the scene, and no hint in the text."""

import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from crosshead.addons.vision.data.ambiguous import (
    AMBIGUOUS,
    MEANINGS,
    NOUNS,
    ambiguous_pairs,
    ambiguous_right,
    is_ambiguous,
    write_ambiguous,
)
from crosshead.addons.vision.data.scenes import COLOURS, SHAPES
from crosshead.errors import DataError
from tests.text.written import refusal

SOME = list(ambiguous_pairs(400, 24, seed=1))
SIGNS = [pair for pair in SOME if is_ambiguous(pair.source)]
STEMS = {"red": "rot", "green": "grün", "blue": "blau", "yellow": "gelb", "purple": "violett"}


def objects(source: str) -> list[tuple[str, str]]:
    """The colour and the noun of each object of a source."""
    words = source.split()
    return [
        (words[place - 1], word)
        for place, word in enumerate(words)
        if word in (*SHAPES, AMBIGUOUS) and words[place - 1] in COLOURS
    ]


def test_every_second_sentence_has_one_ambiguous_word() -> None:
    assert [is_ambiguous(pair.source) for pair in SOME[:4]] == [True, False, True, False]
    assert all(pair.source.split().count(AMBIGUOUS) == 1 for pair in SIGNS)
    assert all(AMBIGUOUS not in pair.target for pair in SOME)
    assert not any(f"small {colour} {AMBIGUOUS}" in p.source for p in SIGNS for colour in COLOURS)


def test_the_german_nouns_are_those_of_the_english_ones() -> None:
    for pair in SOME:
        german = [word for word in pair.target.split() if word in NOUNS.values()]
        english = [noun for _, noun in objects(pair.source)]
        assert len(german) == len(english)
        for noun, word in zip(english, german, strict=True):
            allowed = MEANINGS if noun == AMBIGUOUS else (noun,)
            assert word in [NOUNS[each] for each in allowed]


def test_german_has_gender_and_case() -> None:
    by_source = {pair.source: pair.target for pair in SOME}
    for source, target in by_source.items():
        words = target.split()
        kind = "r" if NOUNS["circle"] in words[:4] and words[2] != NOUNS["cross"] else "s"
        first = words[1 : next(place for place, word in enumerate(words) if word in NOUNS.values())]
        assert words[0] == "ein" and all(each.endswith(f"e{kind}") for each in first), target
        assert words.count("einem") == len(objects(source)) - 1
        for colour, stem in STEMS.items():
            assert source.split().count(colour) == sum(word.startswith(stem) for word in words)


def test_nothing_in_the_sentence_tells_what_the_sign_is() -> None:
    """Neither its colour, its size nor its place says circle or triangle; both are as frequent."""
    many = [pair for pair in ambiguous_pairs(2000, 24, seed=2) if is_ambiguous(pair.source)]
    meant: dict[str, Counter[str]] = {"": Counter()}
    for pair in many:
        found = objects(pair.source)
        place = [noun for _, noun in found].index(AMBIGUOUS)
        colours = [colour for colour, _ in found]
        assert colours.count(colours[place]) == 1  # another object would exclude one meaning
        noun = [word for word in pair.target.split() if word in NOUNS.values()][place]
        for key in ("", f"colour {colours[place]}", f"place {place}"):
            meant.setdefault(key, Counter())[noun] += 1
    assert len(meant) == 1 + len(COLOURS) + 3
    for key, counts in meant.items():
        share = counts[NOUNS["circle"]] / counts.total()
        assert abs(share - 0.5) < 4 * 0.5 / counts.total() ** 0.5, key


def test_the_share_of_right_words_counts_the_noun_at_the_place_of_the_sign() -> None:
    sources = [
        "a red sign above a blue cross",
        "a red cross above a blue sign",
        "a red circle above a blue cross",
    ]
    references = [
        "ein roter Kreis über einem blauen Kreuz",
        "ein rotes Kreuz über einem blauen Dreieck",
        "ein roter Kreis über einem blauen Kreuz",
    ]
    assert ambiguous_right(sources, references, references) == 1
    other = ["ein rotes Dreieck über einem blauen Kreuz", references[1], "Kreuz"]
    assert ambiguous_right(sources, other, references) == 0.5
    assert ambiguous_right(sources, ["", "Kreuz", ""], references) == 0
    assert ambiguous_right(sources, ["Kreis", "Kreis Dreieck", ""], references) == 1
    assert f"no sentence has the word '{AMBIGUOUS}'" in refusal(
        ambiguous_right, sources[2:], references[2:], references[2:]
    )


def test_one_answer_for_all_signs_is_right_for_half_of_them() -> None:
    sources, references = [p.source for p in SIGNS], [p.target for p in SIGNS]
    circles = [text.replace(NOUNS["triangle"], NOUNS["circle"]) for text in references]
    assert 0.4 < ambiguous_right(sources, circles, references) < 0.6


def test_the_files_are_the_same_each_time(tmp_path: Path) -> None:
    first, second = (
        write_ambiguous(tmp_path / name, 24, train=5, others=4) for name in ("one", "two")
    )
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    images, train, valid, test = first
    assert len(zipfile.ZipFile(images).namelist()) == 5 + 2 * 4
    rows = [json.loads(line) for line in train.read_text("utf-8").splitlines()]
    assert rows[0].keys() == {"image", "source", "target"} and len(rows) == 5
    assert valid.read_text() != test.read_text()


def test_wrong_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="20 pixels are too small"):
        next(ambiguous_pairs(1, 20, seed=1))
