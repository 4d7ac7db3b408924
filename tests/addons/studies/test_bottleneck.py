import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crosshead import __version__
from crosshead.addons.studies import bottleneck, sources
from crosshead.addons.studies.bottleneck import (
    ADDED,
    ATTENDED,
    CAPTIONS,
    CONVOLVED,
    FALL,
    QUICK,
    SINKS,
    STAYS,
    Scores,
    WordRun,
    by_length,
    captions_measured,
    on_captions,
    on_words,
    spelling,
    words_measured,
)
from crosshead.addons.studies.captions import made_up
from crosshead.addons.studies.conduct import found_again
from crosshead.addons.studies.effort import QUICK as QUICKLY
from crosshead.addons.studies.equal import (
    BAHDANAU,
    CONVOLUTIONAL,
    LUONG,
    PLAIN,
    TRANSFORMER,
)
from crosshead.addons.studies.study import Value
from crosshead.models.recurrent import RecurrentConfig


def scores(**found: dict[str, list[list[float]]]) -> Scores:
    """Scores of each kind by model, a list for each seed."""
    [first, *_] = found.values()
    return {
        (name, seed): {what: runs[name][seed] for what, runs in found.items()}
        for name, each in first.items()
        for seed in range(len(each))
    }


def test_captions_are_grouped_by_the_words_of_their_source() -> None:
    source = ["w " * 8, "w " * 9, "w " * 12, "w " * 15]
    right, wrong = "one two three four five", "six"
    found = by_length(source, [right, right, wrong, right], [right] * 4)
    assert found[:2] == pytest.approx([100, 100])
    assert 0 < found[2] < 100 and math.isnan(found[3])


def test_quantities_are_ratios_and_differences_of_means() -> None:
    words = {PLAIN: [[1.0, 0.8, 0.1], [1.0, 0.4, 0.2]]}
    found: dict[str, Value] = words_measured(scores(words=words), (5, 10, 80))
    assert found == {FALL.format(PLAIN): pytest.approx(0.25)}
    bleu = {
        PLAIN: [[20.0], [22.0]], BAHDANAU: [[30.0], [32.0]], LUONG: [[31.0], [29.0]],
        CONVOLUTIONAL: [[33.0], [33.0]], TRANSFORMER: [[34.0], [34.0]],
    }  # fmt: skip
    groups = {name: [[40.0, 20.0]] * 2 for name in bleu} | {PLAIN: [[20.0, 5.0]] * 2}
    found = captions_measured(scores(bleu=bleu, groups=groups))
    assert found == pytest.approx(
        {
            ADDED.format("Bahdanau's attention"): 10,
            ADDED.format("Luong's attention"): 9,
            SINKS: 0.5,
            STAYS: 0.5,
            CONVOLVED: 3,
            ATTENDED: 1,
        }
    )


def test_a_ratio_that_is_one_by_construction_is_not_measured() -> None:
    words = {PLAIN: [[1.0, 0.8]], LUONG: [[1.0, 0.8]]}
    found = words_measured(scores(words=words), (5, 10))
    assert found == dict.fromkeys(
        (FALL.format(PLAIN), FALL.format(LUONG)),
        "no sentence longer than ten words was tested",
    )


def test_models_that_have_learned_nothing_are_not_compared() -> None:
    words = {PLAIN: [[0.1, 0.0, 0.0]]}
    [fall] = words_measured(scores(words=words), (5, 10, 80)).values()
    assert fall == "only 0% of the words are right at ten"
    nothing = {name: [[0.0]] for name in (PLAIN, BAHDANAU, LUONG, CONVOLUTIONAL, TRANSFORMER)}
    found = captions_measured(scores(bleu=nothing, groups=nothing))
    assert set(found) == set(CAPTIONS)
    assert all(isinstance(each, str) and "below 5" in each for each in found.values())


def test_what_was_learned_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = RecurrentConfig(d_model=16, encoder_layers=1, decoder_layers=1, attention="none")
    run = WordRun(shape, 1e-3, QUICK, 1)
    first = spelling(run, tmp_path)
    [kept] = tmp_path.iterdir()
    assert kept == sources.stored_at(run, tmp_path)
    assert found_again([kept], datetime.now(UTC) + timedelta(1)).endswith(f" {__version__}")
    monkeypatch.setattr(bottleneck, "train", None)
    assert spelling(run, tmp_path) == first
    with pytest.raises(TypeError):
        spelling(run._replace(seed=2), tmp_path)  # another run, which has yet to learn
    monkeypatch.setattr(sources, "THIS_CODE", "another")
    with pytest.raises(TypeError):
        spelling(run, tmp_path)  # what other code has learned is not this one's


@pytest.mark.slow
def test_a_result_names_the_files_that_its_runs_are_kept_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, found = on_words(QUICKLY, [1], tmp_path / "words", lambda line: None)
    assert sorted(found) == sorted((tmp_path / "words").iterdir())
    corpus, jobs = made_up(tmp_path / "text", 1), {}

    def untrained(given: dict[Any, Any], quick: bool) -> Iterator[tuple[Any, list[str]]]:
        jobs.update(given)
        yield from ((name, corpus.test()[1]) for name in given)

    monkeypatch.setattr(bottleneck, "side_by_side", untrained)
    *_, kept = on_captions(corpus, [1, 2], lambda line: None)
    trains = {corpus.finished(recipe) for _, recipe in (job.args for job in jobs.values())}
    assert set(kept) == trains and len(kept) == 10
