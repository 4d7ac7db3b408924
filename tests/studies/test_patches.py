from pathlib import Path

from crosshead.studies.effort import QUICK
from crosshead.studies.forecasters import LONG, etth1
from crosshead.studies.patches import update_times


def test_one_token_a_step_takes_longer_than_patches(tmp_path: Path) -> None:
    series = etth1(QUICK, tmp_path, print)
    assert series is not None
    tokens = {
        kind: series.recipe(kind, LONG, 1).model.patch_stride  # type: ignore[attr-defined]
        for kind in ("patchtst", "points")
    }
    assert tokens == {"patchtst": 8, "points": 1}
    found = update_times(series, QUICK, 1)
    assert found["patchtst"].ratio.median == 1
    assert found["points"].seconds > 0
