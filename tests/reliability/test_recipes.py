"""Recipes that cannot be are refused at once, before any text is read, by the name of the key."""

import copy
import math
import random
import time
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import annotated_types
import pytest
from pydantic.fields import FieldInfo

from crosshead.cli import run
from crosshead.config import OneOf
from crosshead.models.base import ModelConfig
from crosshead.models.registry import CONFIGS
from crosshead.models.transformer import TransformerConfig
from crosshead.recipe.compose import compose
from crosshead.recipe.presets import PRESETS
from crosshead.tasks.registry import TASKS
from tests.reliability.tools import SEED, counts

Tables = dict[str, Any]


class Mutation(NamedTuple):
    """A change that makes every recipe invalid, and the keys one of which the message names."""

    section: str
    changes: Tables
    named: tuple[str, ...]


WRONG: dict[Any, list[Any]] = {
    bool: [1, 0, "true", "yes", 0.5, [], {}],
    int: [1.5, "3", "many", True, False, [3], {}, math.nan, math.inf, 2**63, 10**30],
    float: ["0.1", "x", True, [0.1], {}, math.nan, math.inf, -math.inf],
    str: [1, 0.5, True, ["x"], {}],
    list: [5, True, [[1]], [["x"]], {}, 0.5],
}
"""Values that are never of a type."""

IMPOSSIBLE = [
    Mutation("train", {"average": 6, "keep_last": 5}, ("average", "keep_last")),
    Mutation("train", {"schedule": "paper", "learning_rate": 0.1}, ("learning_rate",)),
    Mutation("train", {"batch_tokens": 200}, ("max_length", "batch_tokens")),
    Mutation("train", {"batch_tokens": 1}, ("max_length", "batch_tokens")),
    Mutation("data", {"max_length": 25_000}, ("max_length", "batch_tokens")),
    Mutation("data", {"source": ["a", "b"], "target": ["a"]}, ("source", "target")),
    Mutation("data", {"source": [], "target": ["a"]}, ("source", "target")),
    Mutation("data", {"valid_source": ["a"], "valid_target": []}, ("valid_source",)),
    Mutation("data", {"valid_source": [], "valid_target": ["a"]}, ("valid_source",)),
    Mutation("data", {"fields": ["a"]}, ("fields",)),
    Mutation("data", {"fields": ["a", "b", "c"]}, ("fields",)),
    Mutation("data", {"pairs": ["a.jsonl"], "fields": []}, ("fields",)),
    Mutation("data", {"valid_pairs": ["a.jsonl.gz"]}, ("fields",)),
    Mutation("data", {"source_language": "not a language"}, ("source_language",)),
    Mutation("data", {"license": "two\nlines"}, ("license",)),
    Mutation("data", {"target_language": ""}, ("target_language",)),
    Mutation("tokenizer", {"joint": False}, ("tie", "joint")),
    Mutation("tokenizer", {"kind": "words", "sampling": 0.1}, ("sampling",)),
    Mutation("tokenizer", {"kind": "unigram", "sampling": 0.5}, ("sampling",)),
    Mutation("tokenizer", {"special": [""]}, ("special",)),
    Mutation("tokenizer", {"special": ["a b"]}, ("special",)),
    Mutation("tokenizer", {"special": ["a", "a"]}, ("special",)),
    Mutation("tokenizer", {"special": ["<unk>"]}, ("special",)),
    Mutation("tokenizer", {"special": ["<0x0A>"]}, ("special",)),
    Mutation("model", {"heads": 3}, ("heads",)),
    Mutation("model", {"positions": "learned", "max_length": 16}, ("max_length",)),
    Mutation("decode", {"sample": True, "beam": 4}, ("sample", "beam")),
]


def base_types(annotation: Any) -> set[Any]:
    """The plain types that a field takes; a `Literal` counts as text."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return set().union(*(base_types(each) for each in typing.get_args(annotation)))
    if origin is typing.Literal:
        return {str}
    if origin is list:
        return {list}
    return set() if annotation is types.NoneType else {annotation}


def beyond(field: FieldInfo) -> Iterator[Any]:
    """Numbers outside a field's bounds."""
    whole = int in base_types(field.annotation)
    for bound in field.metadata:
        if isinstance(bound, annotated_types.Ge):
            yield from (bound.ge - 1, bound.ge - 1000, -(10**20)) if whole else (bound.ge - 1e-6,)
        if isinstance(bound, annotated_types.Gt):
            yield from (bound.gt, bound.gt - 1, -(10**20)) if whole else (bound.gt, -0.5, -1e300)
        if isinstance(bound, annotated_types.Le):
            yield from (bound.le + 1,) if whole else (bound.le * (1 + 1e-6) + 1e-6, 1e300)
        if isinstance(bound, annotated_types.Lt):
            yield from (bound.lt,) if whole else (bound.lt, 1e300)


def mutations(model: type[ModelConfig]) -> Iterator[Mutation]:
    """Every way that is known here of making a recipe of a model invalid by one section."""
    if model is TransformerConfig:
        yield from IMPOSSIBLE
    for section, whole in TASKS[model.task].recipe.model_fields.items():
        assert whole.annotation
        fields = model.model_fields if section == "model" else whole.annotation.model_fields
        for key, field in fields.items():
            for unknown in (f"{key}x", key[1:], key.upper(), f"{key}-{key}", f"_{key}"):
                if unknown not in fields:
                    yield Mutation(section, {unknown: 1}, (f"{section}.{unknown}",))
            (base,) = base_types(field.annotation) or {str}
            for value in [*WRONG[base], *beyond(field)]:
                yield Mutation(section, {key: value}, (f"{section}.{key}", f" {key} "))
            if typing.Literal in {
                typing.get_origin(each)
                for each in (field.annotation, *typing.get_args(field.annotation))
            } or any(isinstance(each, OneOf) for each in field.metadata):
                for value in ("", "none of them", "Paper"):
                    yield Mutation(section, {key: value}, (f"{section}.{key}", f" {key} "))
    for section in ("trian", "Train", "models", "x" * 50):
        yield Mutation(section, {"a": 1}, (section,))


def toml(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return repr(value)


def written(tables: Tables, path: Path) -> Path:
    lines = []
    for section, values in tables.items():
        lines.append(f"[{section}]")
        lines += [f'"{key}" = {toml(value)}' for key, value in values.items() if value is not None]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def presets() -> dict[tuple[type[ModelConfig], str], Tables]:
    """The presets as whole recipes, of files that are not there, by model and name."""
    data = {
        "translation": {"source": "absent/en", "target": "absent/de"},
        "language": {"text": "absent/en"},
        "masked": {"text": "absent/en"},
        "forecasting": {"series": "absent/en"},
        "classification": {"images": "absent/en"},
        "captioning": {"images": "absent/en", "captions": "absent/de"},
        "multimodal": {"images": "absent/en", "pairs": "absent/de"},
    }
    return {
        (model, name): compose(
            name, {"model": architecture}, {"data": data[model.task]}
        ).model_dump()
        for model in CONFIGS.values()
        for architecture in [model.model_fields["architecture"].default]
        for name in PRESETS[architecture]
    }


def refused(tables: Tables, folder: Path, capfd: pytest.CaptureFixture[str]) -> tuple[str, float]:
    """What `crosshead train` says of a recipe, and in how many seconds of the processor."""
    recipe = written(tables, folder / "recipe.toml")
    began = time.process_time()
    code = run(["train", str(recipe), "--out", str(folder / "run")])
    seconds = time.process_time() - began
    said = capfd.readouterr().err
    assert code == 2, said
    assert said.count("\n") == 1
    assert not (folder / "run").exists()
    return said, seconds


def test_a_valid_recipe_is_refused_for_its_files_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for tables in presets().values():
        tables["train"]["precision"] = "float32"  # which needs no measuring first
        assert "absent/en: no such file" in refused(tables, tmp_path, capfd)[0]


@counts(quick=20, full=500)
def test_mutated_recipes(
    count: int, tmp_path: Path, capfd: pytest.CaptureFixture[str], record: Callable[[str], None]
) -> None:
    rng = random.Random(SEED)
    whole = presets()
    every = [(preset, mutation) for preset in whole for mutation in mutations(preset[0])]
    slowest = 0.0
    for preset, mutation in rng.sample(every, count):
        tables = copy.deepcopy(whole[preset])
        tables.setdefault(mutation.section, {}).update(mutation.changes)
        said, seconds = refused(tables, tmp_path, capfd)
        assert "no such file" not in said, mutation
        assert any(name in said for name in mutation.named), (mutation, said)
        slowest = max(slowest, seconds)
    assert slowest < 1
    record(
        f"{count} of {count} mutated recipes, of {len(every)} there are, refused by the key's "
        f"name, the slowest in {1000 * slowest:.0f} ms"
    )
