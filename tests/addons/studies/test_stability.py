import math
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from crosshead.addons.studies import stability
from crosshead.addons.studies.captions import text_of
from crosshead.addons.studies.fitting import WITHIN, weights
from crosshead.addons.studies.stability import (
    RANGE,
    RATES,
    RECURRENT,
    SPIKES,
    SPREAD,
    TRANSFORMER,
    UPDATES,
    WINDOW,
    CaptionIds,
    LossAndNorms,
    StabilityRun,
    endless,
    is_spike,
    plan,
    quantities,
    rates_that_train,
    read,
    sheets,
    trained,
)
from crosshead.text.batching import Pairs
from tests.addons.studies.trials import full, quick


def test_every_model_has_a_run_for_each_seed_at_each_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CaptionIds(Pairs([([4], [5])]), Pairs([([4], [5])]), 4000, 6.0)
    monkeypatch.setattr(stability, "read", lambda folder, words: text)
    monkeypatch.setattr(stability, "shapes", cache(stability.shapes))
    shapes = {}
    for name, rate in product((RECURRENT, TRANSFORMER), RATES):
        run = plan(full(), tmp_path, name, rate, 1002).settings
        assert (run.rate, run.seed, run.updates) == (rate, 1002, UPDATES)
        shapes[name] = run.shape
    counted = {name: weights(shape, 4000) for name, shape in shapes.items()}
    assert abs(counted[RECURRENT] / counted[TRANSFORMER] - 1) <= WITHIN
    assert all(shape.dropout == 0 for shape in shapes.values())


def test_a_spike_stands_above_the_median_before_it() -> None:
    norms = [1.0] * 60 + [2.9, 3.1, math.inf, 1.0] + [10.0] * 60
    spikes = [place for place in range(len(norms)) if is_spike(norms, place)]
    assert spikes[:2] == [61, 62]  # 2.9 is none
    assert spikes[2:] == [*range(64, 64 + WINDOW // 2)]  # until the median has come up
    assert LossAndNorms(1.0, norms).spikes == len(spikes) / (len(norms) - len(norms) // 10)
    assert LossAndNorms(1.0, [9.0, 1.0]).spikes == 0  # the warm-up does not count


def test_batches_go_through_the_pairs_again_and_again() -> None:
    pairs = Pairs([([5, 6], [7]), ([8], [9])])
    batches = endless(pairs, 100, 1)
    for _ in range(3):
        assert next(batches).source.shape == (2, 3)


def runs(losses: dict[str, list[list[float]]]) -> dict[tuple[str, float], list[LossAndNorms]]:
    """Outcomes by model and rate; the recurrent ones have a spike in the first seed."""
    calm = [1.0] * 20
    return {
        (name, rate): [
            LossAndNorms(loss, [*calm[:-1], 9.0] if name == RECURRENT and not seed else calm)
            for seed, loss in enumerate(each)
        ]
        for name, of in losses.items()
        for rate, each in zip(RATES, of, strict=False)
    }


def test_quantities_compare_the_best_rates() -> None:
    found = runs(
        {
            RECURRENT: [[4.0, 4.2, 4.4], [5.0, 5.0, math.inf]],
            TRANSFORMER: [[4.9, 4.9, 4.9], [4.0, 4.1, 4.2]],
        }
    )
    assert rates_that_train(found, RECURRENT, 5.0) == [RATES[0]]
    assert rates_that_train(found, TRANSFORMER, 5.0) == [RATES[0], RATES[1]]
    values = quantities(found, 5.0)
    assert values[SPREAD] == pytest.approx(2) and values[RANGE] == 1
    assert values[SPIKES] == pytest.approx(1)  # one seed of three has a spike: mean over its error
    losses, trained, *_ = (sheet.table for sheet in sheets(found, 5.0, 300))
    assert losses.rows[1][2] == "5.00, 5.00, inf" and trained.rows[1][2] == "0, 0, 0"


def test_models_that_spike_alike_differ_by_nothing() -> None:
    calm = {name: [[4.0, 4.2]] for name in (RECURRENT, TRANSFORMER)}
    found = {
        key: [LossAndNorms(each.loss, [1.0] * 20) for each in of] for key, of in runs(calm).items()
    }
    assert quantities(found, 5.0)[SPIKES] == 0


def test_nothing_is_compared_where_a_model_does_not_train() -> None:
    found = runs({RECURRENT: [[6.0, 6.1]], TRANSFORMER: [[4.0, 4.1]]})
    why = f"{RECURRENT} trains at none of the learning rates"
    assert quantities(found, 5.0) == dict.fromkeys((SPREAD, SPIKES, RANGE), why)


def test_a_run_learns_by_its_seed_and_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of(quick(tmp_path))
    ids = read(str(text), words=True)
    assert 0 < ids.entropy < math.log(ids.vocabulary)
    first_run = plan(quick(tmp_path), text, RECURRENT, RATES[1], 1000)
    first = trained(first_run)
    assert len(first.norms) == first_run.settings.updates and 0 < first.loss < 10

    def other(each: StabilityRun) -> LossAndNorms:
        raise AssertionError("trained again")

    with monkeypatch.context() as patched:
        patched.setattr(stability, "learn", other)
        assert trained(first_run) == first
    second_run = plan(quick(tmp_path), text, RECURRENT, RATES[1], 2)
    assert second_run.file != first_run.file and trained(second_run) != first
    first_run.file.unlink()
    assert trained(first_run) == first


def test_a_loss_that_is_not_finite_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = quick(tmp_path)
    run = plan(trial, text_of(trial), TRANSFORMER, RATES[1], 1000)
    broken = LossAndNorms(math.inf, [1.0, math.inf])
    monkeypatch.setattr(stability, "learn", lambda *given: broken)
    assert trained(run) == trained(run) == broken
