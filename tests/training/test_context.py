import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import crosshead
from crosshead.system.progress import Silent
from crosshead.system.signals import STOP_SIGNALS
from crosshead.training.context import Context
from crosshead.training.distributed import ALONE
from crosshead.training.log import LOG, RunLog, read_log
from crosshead.training.run import train
from tests.parameters import mostly_slow
from tests.training.runs import Remembering, recipe_for


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
    assert read_log(tmp_path / LOG) == [{"kind": "valid", "update": 3, "loss": 1.5}]
    assert display.lines == ["a message"]


def test_a_run_begins_when_its_context_is_made() -> None:
    before = time.perf_counter()
    first, second = Context(), Context()
    assert before <= first.began < second.began <= time.perf_counter()


class Signalling(Remembering):
    """Sends this process a signal in the fourth update, or at the first line that begins so."""

    def __init__(self, number: int, begin: str = "") -> None:
        super().__init__()
        self.number, self.begin = number, begin

    def say(self, line: str) -> None:
        super().say(line)
        if self.begin and line.startswith(self.begin):
            self.begin = "not again"
            os.kill(os.getpid(), self.number)

    def due(self) -> bool:
        """Show every update."""
        return True

    def advance(self, fraction: float, line: str) -> None:
        if "update 4 " in line and not self.begin:
            os.kill(os.getpid(), self.number)


def ended(display: Signalling, *recipe: Any, **options: Any) -> tuple[int, str]:
    """How a process of its own ends that trains, and what it says of the run."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            crosshead.train(*recipe, display=display, **options)
        except KeyboardInterrupt as error:
            display.lines.append(str(error))
        finally:  # not reached after the other signals
            os.write(writer, display.lines[-1].encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        found = said.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), found


@pytest.mark.parametrize(
    "number", mostly_slow(STOP_SIGNALS, [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
)
def test_a_signal_saves_the_run_and_then_ends_the_program(
    number: int, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    code, said = ended(Signalling(number), recipe_for(text), out=str(out))
    if number == signal.SIGINT:
        assert code == 0 and said.startswith("stopped at update 5 and saved; ")
        assert said.endswith("resume=True)")
    else:
        assert code == -number
    assert [each.name for each in (out / "checkpoints").glob("update-*")] == ["update-00000005"]
    assert not (out / "config.json").exists()
    summary = train(recipe_for(text, "max_updates=6"), str(out), resume=True)
    assert summary.progress.update == 6 and summary.out == out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_update_leaves_nothing(number: int, tmp_path: Path) -> None:
    """Neither a run nor the files of data in memory."""
    source = ["one two", "three four"] * 20
    sections = {"model": {"d_model": 16, "heads": 2}, "train": {"max_updates": 5, "threads": 1}}
    code, _ = ended(
        Signalling(number, "warning: "),
        source=source, target=source, out=tmp_path / "run", **sections,
    )  # fmt: skip
    assert code == (0 if number == signal.SIGINT else -number)
    assert not list(tmp_path.iterdir())


def test_a_signal_while_the_weights_are_scored_keeps_all_updates(
    text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    display = Signalling(signal.SIGTERM, "update 18  epoch")  # the last validation
    assert ended(display, recipe_for(text), out=out)[0] == -signal.SIGTERM
    assert not (out / "config.json").exists()
    summary = train(recipe_for(text), out, resume=True)
    assert summary.progress.update == 18 and summary.scores


PROGRAM = """
import sys, crosshead
sizes = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
crosshead.train("tiny", source=sys.argv[1], target=sys.argv[2], out=sys.argv[3], model=sizes,
    tokenizer={"kind": "characters"}, train={"max_updates": 10**6, "threads": 1, "metric": "loss"})
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_program_that_another_kills_has_saved_its_run(
    number: int, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, text / "en", text / "de", out],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr
        while "update 1" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait(timeout=60) == -number
    assert "resume=True)" in said
    update = max(int(each.name[7:]) for each in (out / "checkpoints").glob("update-*"))
    resumed = crosshead.train(
        out=out, resume=True, train={"max_updates": update + 1}, display=Silent()
    )
    assert resumed.progress.update == update + 1
