import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from crosshead.addons.look.session import Session
from crosshead.errors import ConfigError, DataError
from crosshead.inspection import trace, without_heads
from crosshead.tasks.translation.translator import Translator
from tests.inspection.pipelines import CONFIGS, pipeline_of

TEXT = "to be or"
PAIRS = [name for name, config in CONFIGS.items() if config.task == "translation"]


def session(name: str = "transformer") -> Session:
    return Session({name: pipeline_of(name)})


@pytest.mark.parametrize("name", CONFIGS)
def test_every_architecture_answers(name: str) -> None:
    own = session(name)
    [described] = own.models
    found = own.answer({"ask": "trace", "text": TEXT})
    assert found["attention"].keys() == described["heads"].keys()
    effects = own.answer({"ask": "heads", "text": TEXT})["effects"]
    assert len(effects) == sum(map(sum, described["heads"].values()))
    for stack, layers in described["stacks"].items():
        request = {"ask": "states", "text": TEXT, "other": "be or to", "stack": stack}
        states = own.answer(request)["effects"]
        assert {each["layer"] for each in states} == set(range(layers + 1))
        same = own.answer(request | {"other": TEXT})["effects"]
        assert all(each["effect"] == pytest.approx(0, abs=1e-4) for each in same)


@pytest.mark.parametrize("name", ["transformer", "bahdanau"])
def test_the_effect_of_a_head_is_that_on_the_log_probability(name: str) -> None:
    translator = pipeline_of(name)
    assert isinstance(translator, Translator)
    own = trace(translator, TEXT)
    given = own.ids[: len(own.ids) - 1]
    pieces = len(given) + own.found[0].finished
    before = trace(translator, TEXT, given).probabilities[:pieces]
    for each in session(name).answer({"ask": "heads", "text": TEXT})["effects"]:
        with without_heads(translator, [(each["layer"], each["head"])], each["kind"]):
            after = trace(translator, TEXT, given).probabilities[:pieces]
        expected = sum(map(math.log, after)) - sum(map(math.log, before))
        assert each["effect"] == pytest.approx(expected, abs=1e-3)


def test_effects_on_a_language_model_are_those_on_the_pieces_of_the_text() -> None:
    pipeline = pipeline_of("language")
    before = trace(pipeline, TEXT)
    assert before.is_guessed
    for each in session("language").answer({"ask": "heads", "text": TEXT})["effects"]:
        with without_heads(pipeline, [(each["layer"], each["head"])], each["kind"]):
            after = trace(pipeline, TEXT)
        logs = [sum(map(math.log, found.probabilities[:-1])) for found in (after, before)]
        assert each["effect"] == pytest.approx(logs[0] - logs[1], abs=1e-3)


def test_a_trace_does_not_wait_for_all_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    own = session("transformer")
    own.answer({"ask": "trace", "text": TEXT})
    begun, answered = threading.Event(), threading.Event()
    effect = own._effect

    def slow(*given: Any) -> dict[str, Any]:
        begun.set()
        time.sleep(0.02)
        return effect(*given)

    def sweep() -> None:
        own.answer({"ask": "heads", "text": TEXT})
        answered.set()

    monkeypatch.setattr(own, "_effect", slow)
    thread = threading.Thread(target=sweep)
    thread.start()
    begun.wait()
    own.answer({"ask": "trace", "text": TEXT})
    assert not answered.is_set()
    thread.join()


@pytest.mark.parametrize(
    "change",
    [
        {"edit": "off", "kind": "cross", "layer": 1, "head": 2},
        {"edit": "uniform", "kind": "encoder", "layer": 2},
        {"edit": "diagonal", "kind": "decoder", "layer": 1},
        {"edit": "edge", "kind": "cross", "layer": 3, "query": 0, "key": 0},
        {"edit": "patch", "text": "be or to", "stack": "encoder", "layer": 1, "position": 0},
    ],
)
def test_a_change_changes_the_numbers_and_nothing_else(change: dict[str, Any]) -> None:
    own = session("pre-norm, multi-query")
    request = {"ask": "trace", "text": TEXT}
    before = own.answer(request)
    changed = own.answer(request | {"edits": [change]})
    assert changed["best"] != before["best"]
    assert own.answer(request) == before


def test_an_output_that_is_cut_off_has_effects() -> None:
    """The guess of the piece after the last one is no part of the output."""
    shape = CONFIGS["transformer"].model_copy(update={"positions": "learned", "max_length": 12})
    pipeline = pipeline_of("transformer", config=shape)
    decode = pipeline.bundle.config.decode.model_copy(update={"min_length": 50, "max_extra": 50})
    config = pipeline.bundle.config.model_copy(update={"decode": decode})
    object.__setattr__(pipeline.bundle, "config", config)
    own = Session({"short": pipeline})
    found = own.answer({"ask": "trace", "text": TEXT})
    assert not found["found"][0]["finished"] and found["target"][-1] != "</s>"
    assert own.answer({"ask": "heads", "text": TEXT})["effects"]


def test_a_prefix_begins_the_output() -> None:
    own = session()
    best = own.answer({"ask": "trace", "text": TEXT})["best"][0]
    [_, (piece, _, number), *_] = best
    change = {"edit": "prefix", "ids": [number]}
    assert own.answer({"ask": "trace", "text": TEXT, "edits": [change]})["target"][0] == piece


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "expected an object"),
        ({"ask": "trace"}, "text"),
        ({"ask": "nothing", "text": TEXT}, "ask"),
        ({"ask": "trace", "text": TEXT, "model": 1}, "no model 1"),
        ({"ask": "trace", "text": TEXT, "checkpoint": 7}, "no checkpoint of update 7"),
        ({"ask": "trace", "text": "a" * 5000}, "text"),
        ({"ask": "states", "text": TEXT, "other": TEXT, "stack": "x"}, "no stack 'x'"),
        ({"ask": "trace", "text": TEXT, "edits": [{"edit": "prefix", "ids": [999]}]}, "id 999"),
        ({"ask": "trace", "text": TEXT, "edits": [{"edit": "prefix", "ids": [2]}]}, "id 2"),
        (
            {"ask": "trace", "text": TEXT, "edits": [{"edit": "prefix", "ids": [4] * 99}]},
            "too long",
        ),
        (
            {"ask": "trace", "text": TEXT, "edits": [{"edit": "off", "kind": "cross", "layer": 9}]},
            "no layer 9",
        ),
        ({"ask": "trace", "text": TEXT, "edits": [{"edit": "x"}]}, "edits"),
    ],
)
def test_wrong_requests_have_one_line_of_advice(values: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        session().answer(values)
    assert "\n" not in str(raised.value)


def test_an_empty_text_is_no_text() -> None:
    with pytest.raises(DataError, match="empty"):
        session().answer({"ask": "trace", "text": " "})


def test_the_weights_of_a_checkpoint_are_used(tmp_path: Path, monkeypatch: Any) -> None:
    pipeline = pipeline_of("transformer")
    (tmp_path / "checkpoints" / "update-00000007").mkdir(parents=True)
    other = {name: torch.zeros_like(each) for name, each in pipeline.model.state_dict().items()}
    monkeypatch.setattr("crosshead.addons.look.session.load_weights", lambda place: other)
    own = Session({str(tmp_path): pipeline})
    assert own.models[0]["checkpoints"] == [7]
    request = {"ask": "trace", "text": TEXT}
    best = own.answer(request | {"checkpoint": 7})["best"][0]
    assert [each[1] for each in best] == pytest.approx([best[0][1]] * len(best))
    assert own.answer(request)["best"][0] != best
