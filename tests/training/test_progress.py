import json
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from crosshead.training.progress import Progress

STORED = Path(__file__).parents[1] / "fixtures/run-format-1/model/checkpoints/update-00000004"


def test_a_run_begins_at_nothing() -> None:
    numbers = {key: value for key, value in asdict(Progress()).items() if type(value) is int}
    assert numbers == dict.fromkeys(numbers, 0) | {"microbatches": 1, "processes": 1}


def test_the_names_in_stored_checkpoints_stay() -> None:
    stored = json.loads((STORED / "state.json").read_text())["progress"]
    written = TypeAdapter(Progress).dump_python(Progress(), by_alias=True)
    assert stored.keys() <= written.keys()


def test_the_epoch_under_way_counts_by_its_batches() -> None:
    assert Progress().epochs == 0
    assert Progress(epoch=2).epochs == 2
    assert Progress(epoch=2, batch=1, batches=4).epochs == 2.25
