import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas
import pytest

import crosshead
from crosshead.caller import option
from crosshead.errors import ConfigError, UserError
from crosshead.system.progress import Silent
from crosshead.training.api import _stored as stored_by_task
from crosshead.training.api import file_arguments
from tests.parameters import mostly_slow
from tests.training.given import Given

SOURCES = [f"{a} {b}" for a in "abcdef" for b in "ghijkl"]
TARGETS = [text.upper() for text in SOURCES]
SECTIONS: dict[str, Any] = {
    "tokenizer": {"kind": "characters"},
    "model": {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 16, "heads": 2},
    "train": {
        "max_updates": 3, "valid_every": 2, "checkpoint_every": 2, "threads": 1, "cooldown": 0.0,
        "average": 5,
    },
}  # fmt: skip


def train(out: Path, **data: Any) -> Any:
    return crosshead.train(out=out, display=Silent(), **{**SECTIONS, **data})


def in_memory(directory: Path) -> Path:
    """The only file of data in memory of the run `run`."""
    [found] = (directory / "run.data").iterdir()
    assert found.name.startswith("train-")
    return found


def stored(name: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in name.read_text().splitlines()]


def test_lists_train_a_bundle_that_translates(tmp_path: Path) -> None:
    summary = train(tmp_path / "run", source=SOURCES, target=TARGETS)
    assert summary.progress.update == 3 and not summary.interrupted
    assert isinstance(crosshead.load(tmp_path / "run")("a b"), str)
    assert stored(in_memory(tmp_path)) == [
        {"source": a, "target": b} for a, b in zip(SOURCES, TARGETS, strict=True)
    ]


def test_lists_train_the_same_model_as_files(tmp_path: Path) -> None:
    for name, lines in (("en", SOURCES), ("de", TARGETS)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    train(tmp_path / "files", source=tmp_path / "en", target=str(tmp_path / "de"))
    train(tmp_path / "lists", source=SOURCES, target=iter(TARGETS))
    weights = "model.safetensors"
    assert (tmp_path / "files" / weights).read_bytes() == (
        tmp_path / "lists" / weights
    ).read_bytes()
    assert not (tmp_path / "files.data").exists()


def test_a_preset_a_recipe_and_a_file_are_named_by_the_first_argument(
    given: list[Given], tmp_path: Path
) -> None:
    data = {"source": SOURCES, "target": TARGETS, "out": tmp_path / "run", "display": Silent()}
    crosshead.train("small", **data)
    (tmp_path / "recipe.toml").write_text("[train]\nlabel_smoothing = 0.2\n")
    crosshead.train(tmp_path / "recipe.toml", **data)
    preset, file = (each.recipe for each in given)
    assert (preset.train.learning_rate, preset.model.d_model) == (0.001, 256)
    assert (file.train.label_smoothing, file.model.d_model) == (0.2, 128)
    crosshead.train(preset, out=tmp_path / "object", display=Silent(), train={"seed": 7})
    recipe = given[-1].recipe
    assert (recipe.train.seed, recipe.model) == (7, preset.model)
    with pytest.raises(ConfigError, match="no preset or recipe 'smal'; did you mean 'small'"):
        crosshead.train("smal", **data)
    assert not (tmp_path / "run.data").exists()


def test_callbacks_receive_rows_of_updates_and_validations(tmp_path: Path) -> None:
    updates: list[Mapping[str, Any]] = []
    validations: list[Mapping[str, Any]] = []
    train(
        tmp_path / "run", source=SOURCES, target=TARGETS, on_update=updates.append,
        on_validation=validations.append,
    )  # fmt: skip
    assert [row["update"] for row in updates] == [1, 2, 3]
    assert {"epoch", "loss", "nll", "learning_rate", "gradient_norm"} <= set(updates[0])
    assert [row["update"] for row in validations] == [2, 3]
    log = pandas.read_json(tmp_path / "run/log.jsonl", lines=True)
    logged = log[log["kind"] == "valid"]
    assert list(logged["bleu"]) == [row["bleu"] for row in validations]
    train_rows = log[log["kind"] == "train"]  # means since the row before, by predictions
    assert updates[-1]["learning_rate"] == pytest.approx(train_rows["learning_rate"].iloc[-1])


class Kept(Silent):
    """A display that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_messages_name_arguments_and_later_ones_flags_again(tmp_path: Path) -> None:
    out, data = tmp_path / "run", {"source": SOURCES, "target": TARGETS}
    train(out, **data)
    with pytest.raises(UserError, match=r"already; resume=True continues it, force=True replaces"):
        train(out, **data)
    with pytest.raises(ConfigError, match=r": tokenizer=\{'vocab_size': \d+\}$"):
        train(tmp_path / "a", **data, tokenizer={"kind": "bpe", "vocab_size": 9000})
    with pytest.raises(ConfigError, match=r"give source and target, or pairs$"):
        train(tmp_path / "a", text=SOURCES, model="transformer")
    with pytest.raises(ConfigError, match=r"train={'threads': 0} takes all$"):
        train(tmp_path / "a", **data, train={"max_updates": 1, "threads": 1024})
    assert option("force") == "--force"


def test_a_key_outside_of_its_section_is_named_with_it(tmp_path: Path) -> None:
    hint = r"'max_updates'; did you mean 'train\.max_updates'\?$"
    with pytest.raises(ConfigError, match=hint):
        train(tmp_path / "run", source=SOURCES, target=TARGETS, max_updates=3)
    with pytest.raises(ConfigError, match=r"'sources'; did you mean 'source'\?"):
        train(tmp_path / "run", sources=SOURCES, target=TARGETS)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_recipe_is_answered_with_presets_too(tmp_path: Path) -> None:
    hint = "no preset or recipe 'medium'; known: auto, base, big, cifar10, multi30k, "
    with pytest.raises(ConfigError, match=hint):
        crosshead.train("medium", source=SOURCES, target=TARGETS, out=tmp_path / "run")


@pytest.mark.slow
def test_a_stopped_run_is_resumed_with_or_without_its_data(tmp_path: Path) -> None:
    seen: list[Mapping[str, Any]] = []
    stopped = train(
        tmp_path / "run", source=SOURCES, target=TARGETS, on_update=seen.append,
        should_stop=lambda: len(seen) == 2,
    )  # fmt: skip
    assert stopped.interrupted and stopped.progress.update == 2
    ended = crosshead.train(out=tmp_path / "run", resume=True, display=Silent())
    assert ended.progress.update == 3
    assert "; the likely cause is the data: from " in ended.verdict
    assert repr(ended).startswith(
        f"<Summary: {tmp_path / 'run'}, update 3, max_updates 3 is reached, "
    )
    assert repr(ended).endswith(", not usable yet (see verdict)>")
    kept = Kept()
    crosshead.train(out=tmp_path / "run", resume=True, display=kept)
    assert "train={'max_updates': ...}" in kept.lines[-1] and "--" not in kept.lines[-1]
    longer = {"train": {"max_updates": 5}, "display": Silent()}
    again = crosshead.train(
        out=tmp_path / "run", resume=True, source=SOURCES, target=TARGETS, **longer
    )
    assert again.progress.update == 5
    whole = train(
        tmp_path / "whole", source=SOURCES, target=TARGETS,
        train=SECTIONS["train"] | {"max_updates": 5},
    )  # fmt: skip
    assert whole.progress.update == 5
    weights = "model.safetensors"
    assert (tmp_path / "run" / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()


@pytest.mark.slow
def test_the_data_of_a_run_stay_until_another_has_taken_its_place(tmp_path: Path) -> None:
    train(tmp_path / "run", source=SOURCES, target=TARGETS)
    first = in_memory(tmp_path)
    kept = first.read_bytes()
    other = {"source": TARGETS, "target": SOURCES}
    refusals: list[dict[str, Any]] = [
        {},
        {"resume": True},
        {"force": True, "model": {"heads": 7, "d_model": 16}},
        {"force": True, "start": tmp_path / "nowhere"},
    ]
    for more in refusals:
        with pytest.raises(UserError):
            train(tmp_path / "run", **other, **more)
        assert in_memory(tmp_path) == first and first.read_bytes() == kept
    with pytest.raises(UserError, match=r"run already; resume=True .*, force=True replaces it$"):
        train(tmp_path / "run", **other)
    stopped = train(tmp_path / "run", **other, force=True, should_stop=lambda: True)
    assert stopped.interrupted
    assert in_memory(tmp_path) == first and first.read_bytes() == kept
    longer = SECTIONS["train"] | {"max_updates": 5}
    again = train(tmp_path / "run", source=SOURCES, target=TARGETS, resume=True, train=longer)
    assert again.progress.update == 5
    train(tmp_path / "run", **other, force=True)
    assert in_memory(tmp_path) != first
    assert stored(in_memory(tmp_path))[0] == {"source": TARGETS[0], "target": SOURCES[0]}


FIVE = {"source": SOURCES, "target": TARGETS, "train": SECTIONS["train"] | {"max_updates": 5}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The weights of a run of five updates that nothing interrupts."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train(out, **FIVE)
    return (out / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    "kind", mostly_slow(["on_update", "on_validation", "should_stop"], ["on_validation"])
)
@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_an_exception_of_a_callback_keeps_the_run(
    kind: str, error: BaseException, whole: bytes, tmp_path: Path
) -> None:
    calls: list[object] = []

    def raising(*row: object) -> bool:
        if len(calls) > 1:
            raise error
        if kind != "should_stop":
            calls.append(row)
        return False

    with pytest.raises(type(error)) as found:
        train(tmp_path / "run", **FIVE, **{"on_update": calls.append, kind: raising})
    assert found.value is error
    assert "saved" in error.__notes__[-1]
    train(tmp_path / "run", **FIVE, resume=True)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole


def test_given_data_are_stored_by_the_task_that_recognizes_them() -> None:
    written: dict[str, list[str]] = {}

    def write(name: str, lines: Iterable[str]) -> str:
        written[name] = list(lines)
        return f"kept/{name}"

    table = {"time": ["2024-01-01"], "load": [1]}
    found = stored_by_task({"series": table, "target": "load"}, write)
    assert found == {"series": ["kept/train.csv"], "target": "load"}
    assert written == {"train.csv": ["time,load", "2024-01-01,1"]}
    given = {"images": "photos", "captions": [Path("a.jsonl")]}
    assert stored_by_task({**given, "target": "b.de"}, write) == given
    assert {"series", "images", "captions", "source"} <= file_arguments()
    assert len(written) == 1
