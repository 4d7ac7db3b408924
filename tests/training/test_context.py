import sys
import time
from pathlib import Path

import pytest

from crosshead.training.context import Context
from crosshead.training.distributed import ALONE
from crosshead.training.log import LOG, RunLog, read_log
from tests.training.runs import Remembering


def test_a_context_without_a_log_writes_nothing_and_needs_nothing(tmp_path: Path) -> None:
    """It is the context of a worker, and of a run before its log is opened."""
    context = Context()
    context.write("train", 1, loss=2.0)
    context.say("nothing")
    assert not context.should_stop() and context.world is ALONE
    context.on_update({"update": 1})
    context.on_validation({"update": 1})
    assert list(tmp_path.iterdir()) == []


def test_lines_go_to_the_log_and_messages_to_the_display(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    display = Remembering()
    context = Context(display=display, log=RunLog(tmp_path))
    context.say("a message")
    context.write("valid", 3, loss=1.5)
    assert context.log is not None
    context.log.close()
    assert read_log(tmp_path / LOG) == ([{"kind": "valid", "update": 3, "loss": 1.5}], [])
    assert display.lines == ["a message"]


def test_a_run_begins_when_its_context_is_made() -> None:
    before = time.perf_counter()
    first, second = Context(), Context()
    assert before <= first.began < second.began <= time.perf_counter()
