from crosshead.addons.studies.effort import FULL, QUICK
from crosshead.addons.studies.layer_times import (
    ABOVE,
    BELOW,
    SHAPES,
    LayerTimes,
    compare,
    shares,
    table,
)
from crosshead.addons.studies.turns import Ratio, Timed


def both(low: float) -> list[Timed]:
    return [Timed(1.0, Ratio(1, 1, 1)), Timed(2.0, Ratio(2, low, 3))]


def test_sizes_lie_on_both_sides() -> None:
    assert len(set(SHAPES)) == 16
    assert sum(n < d for n, d in SHAPES) == 8 == sum(n > d for n, d in SHAPES)


def test_faster_is_faster_in_every_round() -> None:
    found: LayerTimes = {(1, 2): both(1.5), (1, 4): both(0.9), (4, 1): both(0.5)}
    measured, conclusion = shares(found, FULL)
    assert measured == {BELOW: 0.5, ABOVE: 0}
    assert "at 1 of 2 sizes with n < d, and at 0 of 1 with n > d" in conclusion
    measured, conclusion = shares(found, QUICK)
    assert all(isinstance(each, str) for each in measured.values()) and not conclusion


def test_both_layers_are_measured_at_each_size() -> None:
    found = compare(QUICK)
    assert all(each.seconds > 0 for both in found.values() for each in both)
    rows = table(found).rows
    assert rows[0] == ["n", "d", "operations", "self-attention", "recurrent", "time"]
    assert [row[:2] for row in rows[1:]] == [["4", "16"], ["16", "4"]]
    # 16 n d^2 over 8 n d^2 + 4 n^2 d.
    assert [row[2] for row in rows[1:]] == ["1.78", "0.67"]
