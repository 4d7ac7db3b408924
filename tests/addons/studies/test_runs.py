from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from crosshead.addons.studies import runs
from crosshead.addons.studies.captions import made_up, transformer
from crosshead.addons.studies.effort import QUICK
from crosshead.addons.studies.registry import STUDIES
from crosshead.addons.studies.runs import place_of, side_by_side
from tests.parameters import mostly_slow


def test_a_place_depends_on_everything_that_a_study_names(tmp_path: Path) -> None:
    recipe = made_up(tmp_path, 1).recipe(transformer(quick=True), 1)
    places = {place_of(tmp_path, recipe, *more) for more in ((), (96,), (336,), (96, 1))}
    assert len(places) == 4
    assert place_of(tmp_path, recipe, 96) == place_of(tmp_path, recipe, 96)


@pytest.mark.parametrize(
    "name", mostly_slow(["grounding", "multimodal", "vision", "linear", "patches"], ["grounding"])
)
def test_a_study_that_is_repeated_trains_nothing_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its recipes leave open what each run has chosen, such as the size of its images."""
    scratch = SimpleNamespace(TemporaryDirectory=lambda: nullcontext(str(tmp_path)))
    monkeypatch.setattr(f"crosshead.addons.studies.{name}.tempfile", scratch)
    kept = STUDIES[name].run(QUICK, 1, print).kept
    monkeypatch.setattr(runs, "train", None)
    assert STUDIES[name].run(QUICK, 1, print).kept == kept != []


@pytest.mark.slow
def test_processes_find_what_one_finds() -> None:
    jobs = {f"{n}": partial(pow, n, 2) for n in range(3)}
    alone = dict(side_by_side(jobs, quick=True))
    assert alone == {"0": 0, "1": 1, "2": 4}
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert dict(side_by_side(jobs, quick=False)) == alone
    finally:
        torch.set_num_threads(threads)
