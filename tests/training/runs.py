"""What the tests of whole runs share: recipes of runs that take a second, and what they leave."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.system.progress import Silent
from tests.recipe.composing import new_recipe

WORDS = {
    "one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs",
    "seven": "sieben", "eight": "acht",
}  # fmt: skip


SMALL = [
    "tokenizer.kind=words", "tokenizer.vocab_size=100", "encoder_layers=1", "decoder_layers=1",
    "d_model=16", "d_ff=16", "heads=2", "model.dropout=0.1", "train.batch_tokens=200",
    "schedule=inverse-sqrt", "learning_rate=0.01", "warmup=10", "max_updates=18", "valid_every=6",
    "precision=float32", "threads=1", "keep_last=3", "average=3", "patience=0", "log_every=1",
    "data.max_length=20",
    "data.valid_size=12", "max_extra=3",
]  # fmt: skip


def recipe_for(text: Path, *assignments: str) -> Recipe:
    data = {"source": str(text / "en"), "target": str(text / "de")}
    return compose(flags={"data": data}, assignments=[*SMALL, *assignments])


def tuning_recipe(text: Path, base: Path, *assignments: str) -> Recipe:
    """As `recipe_for`, but with the model and the tokenizer of a bundle."""
    data = {"source": [str(text / "en")], "target": [str(text / "de")]}
    training = [each for each in SMALL if not each.startswith(("model.", "tokenizer."))]
    return new_recipe(None, None, {"data": data}, [*training, *assignments], base)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def logged(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def tree(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): digest(path) for path in out.rglob("*") if path.is_file()}


def stop_after(out: Path, update: int) -> Callable[[], bool]:
    """What a signal during that update does (the update before it stands in the log)."""
    log = out / "log.jsonl"
    return lambda: log.is_file() and any(line["update"] >= update - 1 for line in logged(out))


class Remembering(Silent):
    """Keeps the lines that stay."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def own_text(text: Path, folder: Path) -> Path:
    """A copy of the text that a test may change."""
    for name in ("en", "de"):
        (folder / name).write_bytes((text / name).read_bytes())
    return folder
