"""Signs that a model is of no use yet: each is seen, and good translations have none."""

from pathlib import Path

import numpy as np
import pytest

from crosshead.bundle.config import BundleScore
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.registry import TASKS
from crosshead.tasks.usability import (
    LOW_BLEU,
    Findings,
    frequency_faults,
    repeats_itself,
    translation_faults,
    translation_samples,
)
from crosshead.training.budget import End, EndKind
from crosshead.training.checkpoint import Progress
from crosshead.training.verdict import verdict, warmup_signs

SOURCES = [f"sentence number {n}" for n in range(20)]
REFERENCES = [f"Satz Nummer {n}" for n in range(20)]


@pytest.mark.parametrize(
    "text",
    ["a man in a man in a man in a man in a", "ein ein ein ein", "的的的的的的的",
     "hahahahahahahaha", '"' * 20,
     "the dog, and so the dog, and so the dog, and so the dog, and so"],
)  # fmt: skip
def test_texts_that_repeat_themselves(text: str) -> None:
    assert repeats_itself(text)


@pytest.mark.parametrize(
    "text",
    ["", "very very good", "no, no, no", "Wait......... what?", "1 000 000 000 000 000",
     "----------", "Ein Mann und ein Mann und eine Frau"],
)  # fmt: skip
def test_texts_that_do_not(text: str) -> None:
    assert not repeats_itself(text)


def test_a_long_text_is_looked_at_quickly() -> None:
    assert not repeats_itself(" ".join(f"word{n}" for n in range(20_000)))
    assert not repeats_itself("".join(chr(0x4E00 + n % 5000) for n in range(20_000)))


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
    assert [each.given for each in found] == [SOURCES[row] for row in rows]
    assert [each.wanted for each in found] == [REFERENCES[row] for row in rows]


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


IN_WARMUP = TrainConfig(max_updates=40, learning_rate=0.1, warmup=40)


def scored(bleu: float, *faults: str) -> Findings:
    score = BundleScore(metric="BLEU", value=bleu, signature="s", test_set="validation")
    return Findings([score], list(faults), scores_enough=bleu >= LOW_BLEU)


@pytest.mark.parametrize("findings", [scored(3.0, "BLEU 3.0 is below 5"), Findings([])])
def test_a_run_that_ends_in_its_warm_up(findings: Findings) -> None:
    """Of a model of text, without BLEU, it is a sign by itself."""
    [fault], note = warmup_signs(IN_WARMUP, Progress(update=40), findings)
    assert "update 40" in fault and "warm-up of 40 updates" in fault and not note
    assert warmup_signs(IN_WARMUP, Progress(update=41), findings) == ([], "")


@pytest.mark.parametrize(("findings", "tuned"), [(scored(5.0), False), (Findings([]), True)])
def test_a_model_that_is_of_use_may_have_ended_in_its_warm_up(
    findings: Findings, tuned: bool
) -> None:
    faults, note = warmup_signs(IN_WARMUP, Progress(update=13, tuned=tuned), findings)
    assert not faults and note == (
        "training ended within the warm-up (update 13 of 40); longer training may improve the model"
    )
    assert warmup_signs(IN_WARMUP, Progress(update=41, tuned=tuned), findings) == ([], "")


@pytest.mark.parametrize(
    ("budget", "update", "least"),
    [
        ({"max_updates": 20}, 20, 1050),
        ({"max_updates": 35}, 35, 1050),
        ({"max_minutes": 0.5}, 7, 0.5 * 1050 / 7),
        ({"max_epochs": 2}, 35, 2 * 1050 / 35),
    ],
)
def test_the_advice_leads_far_beyond_the_warm_up(
    budget: dict[str, float], update: int, least: float
) -> None:
    config = TrainConfig(learning_rate=0.1, warmup=210, **budget)
    end = End(EndKind(next(iter(budget))), "it is reached")
    said = verdict(["why"], TASKS["masked"], config, Progress(update=update), end, Path("run"))
    assert float(said.split()[-1]) >= least


@pytest.mark.parametrize(
    ("budget", "kind", "update", "advice"),
    [
        ({"max_updates": 30_000}, EndKind.MAX_UPDATES, 400, "--max-updates 300000"),
        ({"max_minutes": 0.5}, EndKind.MAX_MINUTES, 400, "--max-minutes 5"),
        ({"max_epochs": 2}, EndKind.MAX_EPOCHS, 9000, "check that each line"),
        ({"max_epochs": 2}, EndKind.PATIENCE, 9000, "train on more data"),
    ],
)
def test_the_advice_fits_the_end(
    budget: dict[str, float], kind: EndKind, update: int, advice: str
) -> None:
    config = TrainConfig(learning_rate=0.1, **budget)
    progress, end, task = Progress(update=update), End(kind, "it ended"), TASKS["translation"]
    said = verdict(["BLEU 0.1 is below 5"], task, config, progress, end, Path("a b"))
    assert said.startswith("this model is not usable yet: BLEU 0.1 is below 5; ")
    assert said.endswith(advice) or advice in said
    if advice.startswith("--"):
        assert "train --resume --out 'a b'" in said
    assert verdict([], task, config, progress, end, Path("a b")) == ""
