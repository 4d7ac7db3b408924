import math
from pathlib import Path

import pytest

from crosshead.addons.studies import stability
from crosshead.addons.studies.captions import text_of
from crosshead.addons.studies.equal import WITHIN, weights
from crosshead.addons.studies.runs import stored_at
from crosshead.addons.studies.stability import (
    RANGE,
    RATES,
    RECURRENT,
    SEEDS,
    SPIKES,
    SPREAD,
    TRANSFORMER,
    UPDATES,
    WINDOW,
    CaptionIds,
    LossAndNorms,
    StabilityRun,
    as_rows,
    endless,
    is_spike,
    plan,
    quantities,
    rates_that_train,
    read,
    trained,
)
from crosshead.text.batching import Pairs
from tests.addons.studies.trials import full, quick


def test_every_model_has_a_run_for_each_seed_at_each_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CaptionIds(Pairs([([4], [5])]), Pairs([([4], [5])]), 4000, 6.0)
    monkeypatch.setattr(stability, "read", lambda folder, words: text)
    planned = plan(full(), tmp_path)
    cases = [(name, rate) for name in (RECURRENT, TRANSFORMER) for rate in RATES]
    seeds = range(1000, 1000 + SEEDS)
    assert list(planned) == [(case, seed) for case in cases for seed in seeds]
    for ((_, rate), seed), run in planned.items():
        assert (run.rate, run.seed, run.updates) == (rate, seed, UPDATES)
    shapes = {name: run.shape for ((name, _), _), run in planned.items()}
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
    row = as_rows(found, 5.0)[2]
    assert row[2:5] == ["5.00, 5.00, inf", "", "0 of 3"]


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
    training = plan(quick(tmp_path), text)[(RECURRENT, RATES[1]), 1000]
    kept = tmp_path / "kept"
    first = trained(kept, training)
    assert len(first.norms) == training.updates and 0 < first.loss < 10

    def other(each: StabilityRun, text: CaptionIds) -> LossAndNorms:
        raise AssertionError("trained again")

    with monkeypatch.context() as patched:
        patched.setattr(stability, "learn", other)
        assert trained(kept, training) == first
    second = trained(kept, training._replace(seed=2))
    assert second != first
    assert stored_at(training._replace(text="another"), kept) != stored_at(training, kept)
    stored_at(training, kept).unlink()
    assert trained(kept, training) == first


def test_a_loss_that_is_not_finite_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = plan(quick(tmp_path), text_of(quick(tmp_path)))[(TRANSFORMER, RATES[1]), 1000]
    broken = LossAndNorms(math.inf, [1.0, math.inf])
    monkeypatch.setattr(stability, "learn", lambda *given: broken)
    kept = tmp_path / "kept"
    assert trained(kept, training) == trained(kept, training) == broken
