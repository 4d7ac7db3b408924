import math
from pathlib import Path

import pytest

from crosshead.addons.studies import bottleneck, fitting, runs
from crosshead.addons.studies.bottleneck import (
    ADDED,
    ALL,
    CAPTIONS,
    FALL,
    GROUPS,
    QUICK,
    SINKS,
    STAYS,
    WordRun,
    by_length,
    captions_measured,
    on_words,
    run,
    spelling,
    words_measured,
)
from crosshead.addons.studies.fitting import BAHDANAU, CONVOLUTIONAL, LUONG, PLAIN, TRANSFORMER
from crosshead.addons.studies.runs import stored
from crosshead.addons.studies.study import Result, Trial
from crosshead.models.recurrent import RecurrentConfig
from tests.addons.studies.trials import full, quick


def test_captions_are_grouped_by_the_words_of_their_source() -> None:
    source = ["w " * 8, "w " * 9, "w " * 12, "w " * 15]
    right, wrong = "one two three four five", "six"
    found = by_length(source, [right, right, wrong, right], [right] * 4)
    assert found[:2] == pytest.approx([100, 100])
    assert 0 < found[2] < 100 and math.isnan(found[3])


def test_quantities_are_ratios_and_differences_of_means() -> None:
    words = {PLAIN: {5: [1.0, 1.0], 10: [0.8, 0.4], 80: [0.1, 0.2]}}
    assert words_measured(words, (5, 10, 80)) == {FALL.format(PLAIN): pytest.approx(0.25)}
    bleu = {
        PLAIN: [20.0, 22.0], BAHDANAU: [30.0, 32.0], LUONG: [31.0, 29.0],
        CONVOLUTIONAL: [33.0, 33.0], TRANSFORMER: [34.0, 34.0],
    }  # fmt: skip
    groups = dict.fromkeys(bleu, (40.0, 20.0)) | {PLAIN: (20.0, 5.0)}
    found = {
        name: {ALL: each, GROUPS[0]: [groups[name][0]], GROUPS[-1]: [groups[name][1]]}
        for name, each in bleu.items()
    }
    assert captions_measured(found) == pytest.approx(
        {
            ADDED.format("Bahdanau's attention"): 10,
            ADDED.format("Luong's attention"): 9,
            SINKS: 0.5,
            STAYS: 0.5,
        }
    )


def test_models_that_have_learned_nothing_are_not_compared() -> None:
    [fall] = words_measured({PLAIN: {10: [0.0], 80: [0.0]}}, (5, 10, 80)).values()
    assert fall == "only 0% of the words are right at ten"
    names = (PLAIN, BAHDANAU, LUONG, CONVOLUTIONAL, TRANSFORMER)
    found = captions_measured({name: {ALL: [0.0]} for name in names})
    assert set(found) == set(CAPTIONS)
    assert all(isinstance(each, str) and "below 5" in each for each in found.values())


def test_words_are_measured_where_captions_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def words(trial: Trial) -> Result:
        return Result({FALL.format(PLAIN): 0.25})

    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))
    monkeypatch.setattr(bottleneck, "on_words", words)
    found = run(full(tmp_path)).measured
    assert found.pop(FALL.format(PLAIN)) == 0.25  # type: ignore[attr-defined]
    assert set(found) == set(CAPTIONS)
    assert all("CROSSHEAD_DATA" in str(each) for each in found.values())


def test_what_was_learned_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = RecurrentConfig(d_model=16, encoder_layers=1, decoder_layers=1, attention="none")
    trial, words = quick(tmp_path), WordRun(shape, 1e-3, QUICK, 1)
    first = spelling(stored(trial, "words", words))
    [kept] = (tmp_path / "words").iterdir()
    assert trial.kept == {kept: False}
    monkeypatch.setattr(fitting, "train", None)
    assert spelling(stored(trial, "words", words)) == first
    with pytest.raises(TypeError):  # another run, which has yet to learn
        spelling(stored(trial, "words", words._replace(seed=2)))
    monkeypatch.setattr(runs, "THIS_CODE", "another")
    with pytest.raises(TypeError):  # what other code has learned is not this one's
        spelling(stored(trial, "words", words))


@pytest.mark.slow
def test_a_trial_names_the_files_that_its_runs_are_kept_in(tmp_path: Path) -> None:
    trial = quick(tmp_path)
    on_words(trial)
    assert sorted(trial.kept) == sorted((tmp_path / "words").iterdir()) and len(trial.kept) == 5
