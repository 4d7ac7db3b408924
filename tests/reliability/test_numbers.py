"""Extreme numbers in every flag and every key: it works, or one line says what was expected."""

import random
import shutil
import time
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crosshead.cli import run
from crosshead.cli.app import app
from crosshead.recipe.text_recipe import TextRecipe
from tests.reliability.tools import BUNDLE, SEED, counts, train_flags, write_corpus

EXTREMES = [
    "-1", "0", str(2**31), str(2**63), str(2**63 - 1), "1e9", "1e308", "1e-308", "-1e-308", "nan",
    "inf", "-inf", "9" * 400, "9" * 5000, "0.5", "1e999",
]  # fmt: skip
"""What is typed for a number."""

SECONDS = 20
"""Of the processor, that a command may take: a run of one update takes less than one."""


def numeric(annotation: Any) -> bool:
    """Whether a field takes numbers."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(numeric(each) for each in typing.get_args(annotation))
    if origin in (list, typing.Annotated):
        return numeric(typing.get_args(annotation)[0])
    return annotation in (int, float)


def keys() -> Iterator[str]:
    """Every key of a recipe that takes numbers, but for those of models."""
    for section, whole in TextRecipe.model_fields.items():
        if section != "model":
            assert whole.annotation
            for key, field in whole.annotation.model_fields.items():
                if numeric(field.annotation):
                    yield f"{section}.{key}"


def flags() -> Iterator[tuple[str, str]]:
    """Every flag that takes a number, behind its verb."""
    for command in app.registered_commands:
        assert command.callback
        for name, annotation in typing.get_type_hints(command.callback).items():
            if numeric(annotation):
                yield command.callback.__name__, "--" + name.replace("_", "-")


def ends_well(arguments: list[object], capfd: pytest.CaptureFixture[str], what: object) -> int:
    """Run a command; it is done, or refused in one line, and neither takes long."""
    began = time.process_time()
    code = run([str(argument) for argument in arguments])
    seconds = time.process_time() - began
    captured = capfd.readouterr()
    assert code in (0, 2), (what, captured.err[-500:])
    if code:
        last = captured.err.splitlines()[-1]
        assert last.startswith("crosshead: error: ") and len(last) < 1200, (what, last[:300])
        assert captured.err.count("crosshead: error: ") == 1, what
    assert seconds < SECONDS, (what, seconds)
    return code


def some(every: list[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """So many of them, drawn, or all."""
    return every if count >= len(every) else random.Random(SEED).sample(every, count)


@counts(quick=12, full=10**6)
def test_keys_of_recipes(
    count: int, tmp_path: Path, capfd: pytest.CaptureFixture[str], record: Callable[[str], None]
) -> None:
    write_corpus(tmp_path, pairs=60)
    every = [(key, value) for key in keys() for value in EXTREMES]
    every += [("model.d_model", value) for value in EXTREMES]
    codes: Counter[int] = Counter()
    for number, (key, value) in enumerate(some(every, count)):
        changed = ["--set", f"{key}=[{value}]" if key == "data.weights" else f"{key}={value}"]
        if key != "data.max_length":
            changed += ["--set", "data.max_length=64"]
        out = tmp_path / f"run-{number}"
        usual = train_flags(tmp_path, out, max_updates="1", keep_last="1", average="0")
        codes[ends_well(["train", *usual, *changed], capfd, (key, value[:30]))] += 1
    record(
        f"{sum(codes.values())} extreme values of {len(set(keys())) + 1} keys: {codes[0]} trained "
        f"with, {codes[2]} refused in one line"
    )


def text_bundles(folder: Path) -> None:
    """Train a language model and a masked one, a moment each."""
    (folder / "text").write_text("one two three\n" * 30)
    shape = ["data.context=16", "tokenizer.kind=characters", "model.layers=1", "model.d_model=16",
             "model.d_ff=16", "model.heads=2", "train.precision=float32"]  # fmt: skip
    changed = [part for each in shape for part in ("--set", each)]
    for architecture in ("language", "encoder"):
        flags = ["--text", str(folder / "text"), "--model", architecture, "--max-updates", "1"]
        assert run(["train", *flags, "--out", str(folder / architecture), *changed]) == 0


@counts(quick=8, full=10**6)
def test_flags(
    count: int, tmp_path: Path, capfd: pytest.CaptureFixture[str], record: Callable[[str], None]
) -> None:
    files = write_corpus(tmp_path, pairs=60)
    (tmp_path / "in").write_text("one two\n\nthree\n")
    text_bundles(tmp_path)
    capfd.readouterr()
    copy = shutil.copytree(BUNDLE, tmp_path / "copy")
    sides = ["--source", tmp_path / "source.txt", "--reference", tmp_path / "source.txt"]
    text = ["evaluate", tmp_path / "language", "--text", tmp_path / "in"]
    commands: dict[str, list[object]] = {
        "translate": ["translate", BUNDLE, tmp_path / "in"],
        "evaluate": ["evaluate", BUNDLE, *sides],
        "compare": ["compare", BUNDLE, copy, *sides],
        "score": ["score", BUNDLE, *files],
        "distill": ["distill", BUNDLE, "--source", tmp_path / "in", "--out", tmp_path / "set"],
        "backtranslate": ["backtranslate", BUNDLE, tmp_path / "in", "--out", tmp_path / "set"],
        "generate": ["generate", tmp_path / "language"],
        "fill": ["fill", tmp_path / "encoder", "one [MASK]"],
        "study": ["study", "list"],
        "classify": ["classify", BUNDLE, tmp_path / "in"],
        "caption": ["caption", BUNDLE, tmp_path / "in"],
        "forecast": ["forecast", BUNDLE, "--series", tmp_path / "in"],
        "attention": ["attention", BUNDLE, "one two", "--out", tmp_path / "a.png"],
        "serve": ["serve", tmp_path / "no-bundle", "--port", 0],  # else it would go on serving
    }
    codes: Counter[int] = Counter()
    every = [(f"{verb} {flag}", value) for verb, flag in flags() for value in EXTREMES]
    for number, (typed, value) in enumerate(some(every, count)):
        verb, flag = typed.split()
        usual = commands.get(verb, [])
        if verb == "train":
            usual = ["train", *train_flags(tmp_path, tmp_path / f"run-{number}", max_updates="1")]
        assert usual, f"no command to try {typed} with"
        if flag in ("--stride", "--memory"):
            usual = text
        sampled = ["--sample"] if verb == "translate" and flag in (
            "--temperature", "--top-k", "--top-p", "--seed", "--n-best") else []  # fmt: skip
        codes[ends_well([*usual, *sampled, flag, value], capfd, (typed, value[:30]))] += 1
    assert count < len(every) or codes[0] > 30  # the commands themselves work
    record(
        f"{sum(codes.values())} extreme values of {len(set(flags()))} flags: {codes[0]} computed "
        f"with, {codes[2]} refused in one line"
    )
