"""Signs that a model is of no use yet: each is seen, and good translations have none."""

import dataclasses

import numpy as np
import pytest

from crosshead.evaluation.sacrebleu_metrics import corpus_scores
from crosshead.tasks.usability import (
    Nouns,
    frequency_faults,
    translation_faults,
    translation_findings,
    translation_remarks,
    translation_samples,
)

SOURCES = [f"sentence number {n}" for n in range(20)]
REFERENCES = [f"Satz Nummer {n}" for n in range(20)]
LONG = [f"sentence number {n} of twenty" for n in range(20)]


def test_good_translations_have_no_faults() -> None:
    assert translation_faults(41.9, SOURCES, REFERENCES, REFERENCES) == []


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (["eins zwei"] * 20, "20 different sentences have only 1 different translation"),
        (["a b", "c d"] * 10, "20 different sentences have only 2 different translations"),
        (
            [*REFERENCES[:15], *["ja ja ja ja ja"] * 5],
            "5 of 20 translations are bad (with repetition 5 ",
        ),
        ([*REFERENCES[:18], "", ""], "2 of 20 translations are bad (with repetition 0 "),
        ([*REFERENCES[:15], *LONG[15:]], "5 of 20 translations are bad (with repetition 0 "),
        ([f"{n}" for n in range(20)], "times the length of the references"),
    ],
)
def test_each_fault_is_named(outputs: list[str], words: str) -> None:
    [*_, last] = faults = translation_faults(41.9, LONG, outputs, REFERENCES)
    assert any(each.startswith(words) for each in faults) or last.endswith(words)
    low = translation_faults(1.23, LONG, outputs, REFERENCES)
    no_match = not set(outputs) & set(REFERENCES)
    assert low == [*["BLEU 1.2 is below 5"] * no_match, *faults]


def test_short_texts_that_equal_their_references_are_usable_without_bleu() -> None:
    """BLEU is 0 if no output has four tokens."""
    outputs = [*REFERENCES[:19], "Satz ohne Nummer"]
    scores = corpus_scores(outputs, REFERENCES)
    assert scores[0].value == 0
    found = translation_findings(scores, SOURCES, outputs, REFERENCES)
    assert not found.faults
    assert "95 % of translations equal their reference; they are too short" in found.remarks[0]
    assert translation_faults(0.0, SOURCES, outputs[::-1], REFERENCES) == ["BLEU 0.0 is below 5"]


def test_copies_and_long_references_are_not_taken_for_short_texts() -> None:
    copied = ["eins", *SOURCES[1:]]
    outputs = ["eins", *["zwei"] * 19]  # one copy that its reference is, too
    references = ["eins", *REFERENCES[1:]]
    assert "BLEU 0.0 is below 5" in translation_faults(0.0, copied, outputs, references)
    long = [f"{text} mit vielen weiteren Wörtern" for text in REFERENCES]
    outputs = [*long[:10], *["zwei"] * 10]
    assert "BLEU 2.0 is below 5" in translation_faults(2.0, SOURCES, outputs, long)


def test_a_model_with_faults_gets_no_remarks() -> None:
    outputs = ["ja ja ja ja ja"] * 20
    found = translation_findings(corpus_scores(outputs, LONG), SOURCES, outputs, LONG)
    assert found.faults and not found.remarks


def test_faults_of_several_kinds_count_together() -> None:
    good, long = REFERENCES[:18], [f"{text} mit Wörtern" for text in LONG]
    mixed = [*good, "", "ja ja ja ja ja"]
    assert translation_faults(60.0, SOURCES, mixed, REFERENCES) == [
        "2 of 20 translations are bad (with repetition 1 (references 0), copied from the source 0 "
        "(references 0), empty 1)"
    ]
    assert not translation_faults(60.0, SOURCES, [*REFERENCES[:19], ""], REFERENCES)
    # A copy of a source that repeats itself is one bad translation.
    loops = [*SOURCES[:19], "ja ja ja ja ja"]
    assert not translation_faults(60.0, loops, [*REFERENCES[:19], loops[19]], REFERENCES)
    assert not translation_faults(60.0, long, [*good, "", REFERENCES[19]], REFERENCES)


@pytest.mark.parametrize("expected", [1, 9])
def test_one_translation_of_all_sources_is_a_fault_whatever_the_score(expected: int) -> None:
    references = [REFERENCES[0], *REFERENCES[:expected], *[REFERENCES[0]] * 19][:20]
    outputs = [REFERENCES[0]] * 20
    assert translation_faults(100.0, SOURCES, outputs, references) == [
        "20 different sentences have only 1 different translation"
    ]


def test_the_faults_of_captions_name_images_and_captions() -> None:
    nouns = Nouns("image", "caption")
    faults = translation_faults(9.0, SOURCES, ["", *["ein Satz"] * 19], REFERENCES, nouns)
    assert faults == ["19 different images have only 1 different caption"]
    outputs = [""] * 8 + [f"{n}" for n in range(12)]
    [short] = translation_faults(9.0, SOURCES, outputs, LONG, nouns)
    assert short.startswith("8 of 20 captions are bad (") and short.endswith("empty 8)")
    [length] = translation_faults(9.0, SOURCES, [f"{n}" for n in range(20)], LONG, nouns)
    assert length.startswith("captions have 0.")


def test_text_that_repeats_itself_may_be_translated_so() -> None:
    songs = [f"la la la la la {n}" for n in range(20)]
    assert translation_faults(80.0, songs, songs, songs) == []


NAMES = ["worst", "lower quartile", "median", "upper quartile", "best"]


@pytest.mark.parametrize(
    ("count", "rows", "names"),
    [(20, [0, 5, 10, 14, 19], NAMES), (3, [0, 1, 2], ["worst", "median", "best"]),
     (2, [0, 1], ["worst", "best"]), (1, [0], ["worst"])],
)  # fmt: skip
def test_samples_are_spread_from_the_worst_to_the_best(
    count: int, rows: list[int], names: list[str]
) -> None:
    """Output n has n right words, and the outputs are given in another order."""
    words = [f"wort{'abcdefghijklmnopqrstuvwxyz'[n]}" for n in range(20)]
    mixed = [7 * n % count for n in range(count)] if count > 7 else list(range(count))
    outputs = [" ".join(words[:n] + ["x"] * (20 - n)) for n in mixed]
    references = [" ".join(words)] * count
    found = translation_samples([f"source {n}" for n in mixed], outputs, references)
    assert [each.input for each in found] == [f"source {row}" for row in rows]
    assert [each.title.split(" of ")[0] for each in found] == names
    assert all(f" of {count} by chrF2 (" in each.title for each in found)


def test_a_remark_counts_lost_numbers() -> None:
    sources = [f"{source} {10 + row}" for row, source in enumerate(SOURCES)]
    references = [f"{wanted} {10 + row}" for row, wanted in enumerate(REFERENCES)]
    bleu = corpus_scores(references, references)[0]
    outputs = [*references[:18], REFERENCES[18], f"{REFERENCES[19]} 92"]
    last = translation_remarks(bleu, sources, outputs, references).sentences[-1]
    assert last == (
        "Of 20 translations: with repetition 0 (references 0), copied from the source 0 "
        "(references 0), empty 0, without a number of the source 2 (references 0)."
    )


def test_a_remark_says_what_translations_are_good_for() -> None:
    bleu = corpus_scores(REFERENCES[::-1], REFERENCES)[0]
    texts = SOURCES, [*REFERENCES[:18], SOURCES[18], "ja ja ja ja"], REFERENCES
    for value, words in ((40.0, "a good draft"), (30.0, "mostly understandable"),
                         (20.0, "the topic is clear"), (10.0, "a rough idea"),
                         (6.0, "most sentences are wrong")):  # fmt: skip
        said = translation_remarks(dataclasses.replace(bleu, value=value), *texts)
        use, _, signs = said.sentences
        assert said.is_usable == (value >= 30)
        usable = "Usable for text like the validation set" if value >= 30 else "Hardly usable yet"
        if 20 <= value < 30:
            usable = "Usable only for the gist of text like the validation set"
        assert use.startswith(f"{usable}: {words}")
        assert use.endswith(f"(BLEU {value:.1f}).")
        assert "with repetition 1 (references 0), copied from the source 0 (" in signs


@pytest.mark.parametrize(("right", "usable"), [(2, False), (12, True)])
def test_short_texts_are_usable_if_most_are_right(right: int, usable: bool) -> None:
    outputs = [*REFERENCES[:right], *["falsch"] * (20 - right)]
    bleu = corpus_scores(["falsch"] * 20, REFERENCES)[0]
    use = translation_remarks(bleu, SOURCES, outputs, REFERENCES).sentences[0]
    says = "Usable for text like the validation set" if usable else "Hardly usable yet"
    assert use.startswith(f"{says}: {5 * right} % of translations equal their reference")


@pytest.mark.parametrize(
    ("value", "words"),
    [(29.94, "Usable only for the gist"), (29.96, "Usable for"), (4.96, "Hardly usable")],
)
def test_limits_are_those_of_the_figure_that_is_shown(value: float, words: str) -> None:
    bleu = dataclasses.replace(corpus_scores(REFERENCES[::-1], REFERENCES)[0], value=value)
    texts = SOURCES, [*REFERENCES[:18], SOURCES[18], REFERENCES[0]], REFERENCES
    found = translation_findings([bleu], *texts)
    assert found.remarks[0].startswith(words) and found.is_usable == words.startswith("Usable for")
    assert not found.faults


def test_chinese_sentences_are_not_short_texts() -> None:
    references = [chr(0x4E00 + n) + "我们今天去公园散步了" for n in range(20)]
    good = [text[:5] + "明" + text[6:] for text in references]
    found = translation_findings(corpus_scores(good, references), SOURCES, good, references)
    assert not found.faults
    bad = [*references[:2], *["一二三四五六七八九十" + chr(0x5000 + n) for n in range(18)]]
    found = translation_findings(corpus_scores(bad, references), SOURCES, bad, references)
    assert not found.remarks or found.remarks[0].startswith("Hardly usable yet")


def test_the_findings_of_a_model_with_faults_do_not_call_it_usable() -> None:
    scores = corpus_scores(["x y z"] * 20, REFERENCES)
    found = translation_findings(scores, SOURCES, ["x y z"] * 20, REFERENCES)
    assert found.faults and not any("Usable" in each for each in found.remarks)
    good = translation_findings(corpus_scores(LONG, LONG), SOURCES, LONG, LONG)
    assert not good.faults and "a good draft" in good.remarks[0]
    assert [score.low for score in good.scores] == pytest.approx([100.0, 100.0])


def test_a_model_of_text_is_to_beat_frequencies() -> None:
    ids = np.array([1, 2, 3, 1, 2, 3, 1, 1] * 20, np.uint16)
    assert frequency_faults(0.2, ids, ids, 5) == []
    [fault] = frequency_faults(1.2, ids, ids, 5)
    assert "1.20 nats" in fault


ALL_EMPTY = (
    "{0} of 20 translations are bad (with repetition 0 (references 0), copied from the source 0 "
    "(references 0), empty {0})"
)


@pytest.mark.parametrize("text", ["", " \t", "\u3000"])
def test_translations_without_a_word_are_counted_once(text: str) -> None:
    """Different white space is no different translation."""
    outputs = [text * (1 + row % 7) for row in range(20)]
    faults = translation_faults(0.0, SOURCES, outputs, REFERENCES)
    assert faults[1:] == [ALL_EMPTY.format(20)]
    faults = translation_faults(9.0, SOURCES, [*outputs[:8], *["ein Satz"] * 12], REFERENCES)
    assert faults == [
        ALL_EMPTY.format(8), "12 different sentences have only 1 different translation",
    ]  # fmt: skip
