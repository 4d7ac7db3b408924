"""Signs that a model is of no use yet: each is seen, and good translations have none."""

import numpy as np
import pytest

from crosshead.tasks.usability import (
    frequency_faults,
    translation_faults,
    translation_samples,
)

SOURCES = [f"sentence number {n}" for n in range(20)]
REFERENCES = [f"Satz Nummer {n}" for n in range(20)]


def test_good_translations_have_no_faults() -> None:
    assert translation_faults(41.9, SOURCES, REFERENCES, REFERENCES) == []


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (["eins zwei"] * 20, "20 different sentences have only one translation"),
        (["a b", "c d"] * 10, "20 different sentences have only 2 different translations"),
        ([*REFERENCES[:15], *["ja ja ja ja ja"] * 5], "5 of 20 translations repeat themselves"),
        ([*REFERENCES[:18], "", ""], "2 of 20 translations are empty"),
    ],
)
def test_each_fault_is_named(outputs: list[str], words: str) -> None:
    assert words in translation_faults(41.9, SOURCES, outputs, REFERENCES)
    low = translation_faults(1.23, SOURCES, outputs, REFERENCES)
    assert low[0] == "BLEU 1.2 is below 5" and words in low


def test_text_that_repeats_itself_may_be_translated_so() -> None:
    songs = [f"la la la la la {n}" for n in range(20)]
    assert translation_faults(80.0, songs, songs, songs) == []


@pytest.mark.parametrize(("count", "rows"), [(20, [0, 10, 19]), (2, [0, 1]), (1, [0])])
def test_samples_are_spread(count: int, rows: list[int]) -> None:
    found = translation_samples(SOURCES[:count], REFERENCES[:count], REFERENCES[:count])
    assert [each.input for each in found] == [SOURCES[row] for row in rows]
    assert [each.expected for each in found] == [REFERENCES[row] for row in rows]


def test_a_model_of_text_is_to_beat_frequencies() -> None:
    ids = np.array([1, 2, 3, 1, 2, 3, 1, 1] * 20, np.uint16)
    assert frequency_faults(0.2, ids, ids, 5) == []
    [fault] = frequency_faults(1.2, ids, ids, 5)
    assert "1.20 nats" in fault


@pytest.mark.parametrize("text", ["", " \t", "\u3000"])
def test_translations_without_a_word_are_counted_once(text: str) -> None:
    """Different white space is no different translation."""
    outputs = [text * (1 + row % 7) for row in range(20)]
    faults = translation_faults(0.0, SOURCES, outputs, REFERENCES)
    assert faults[1:] == ["20 of 20 translations are empty"]
    faults = translation_faults(9.0, SOURCES, [*outputs[:8], *["ein Satz"] * 12], REFERENCES)
    assert faults == [
        "8 of 20 translations are empty", "12 different sentences have only one translation",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ([""], "the only translation is empty"),
        (["", "b", "c"], "1 of 3 translations is empty"),
        (["ja ja ja ja"], "the only translation repeats itself"),
        (["ja ja ja ja", "b", "c"], "1 of 3 translations repeats itself"),
    ],
)
def test_one_translation_is_counted_in_the_singular(outputs: list[str], words: str) -> None:
    count = len(outputs)
    assert translation_faults(9.0, SOURCES[:count], outputs, REFERENCES[:count]) == [words]
