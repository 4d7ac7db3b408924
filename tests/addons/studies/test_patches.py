from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from crosshead.addons.studies import patches
from crosshead.addons.studies.effort import QUICK
from crosshead.addons.studies.forecasters import LONG, etth1
from crosshead.addons.studies.patches import update_times
from crosshead.addons.studies.turns import Timed, ratio


def test_an_update_of_each_kind_is_compared_with_patches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = etth1(QUICK, tmp_path, print)
    assert series is not None
    tokens = {
        kind: series.recipe(kind, LONG, 1).model.patch_stride  # type: ignore[attr-defined]
        for kind in ("patches", "points")
    }
    assert tokens == {"patches": 8, "points": 1}
    seconds = {"patches": 2.0, "points": 6.0}

    def timed(
        calls: Mapping[str, Callable[[], None]], baseline: Callable[[str], str], *rest: object
    ) -> dict[str, Timed]:
        for call in calls.values():
            call()
        return {
            kind: Timed(seconds[kind], ratio([seconds[kind]], [seconds[baseline(kind)]]))
            for kind in calls
        }

    monkeypatch.setattr(patches, "timed", timed)
    found = update_times(series, QUICK, 1)
    assert [found[kind].ratio.median for kind in ("patches", "points")] == [1, 3]
