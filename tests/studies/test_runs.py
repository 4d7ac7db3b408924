from functools import partial
from pathlib import Path

import pytest
import torch

from crosshead.studies.captions import made_up, transformer
from crosshead.studies.runs import place_of, side_by_side


def test_a_place_depends_on_everything_that_a_study_names(tmp_path: Path) -> None:
    recipe = made_up(tmp_path, 1).recipe(transformer(quick=True), 1)
    places = {place_of(tmp_path, recipe, *more) for more in ((), (96,), (336,), (96, 1))}
    assert len(places) == 4
    assert place_of(tmp_path, recipe, 96) == place_of(tmp_path, recipe, 96)


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
