"""A text that a small model learns in seconds, and a run on it."""

import random
from pathlib import Path

import pytest

from crosshead.training.run import train
from tests.training.given import given  # noqa: F401  # a fixture
from tests.training.runs import WORDS, recipe_for


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `en` and `de`: 200 pairs, and three that nobody can learn from."""
    rng = random.Random(1)
    lines = [rng.choices(list(WORDS), k=rng.randint(1, 6)) for _ in range(200)]
    source = [" ".join(line) for line in lines]
    target = [" ".join(WORDS[word] for word in line) for line in lines]
    source[40:40], target[40:40] = [" "], ["eins"]
    source[90:90], target[90:90] = ["one " * 30], ["eins " * 30]
    source[150:150], target[150:150] = ["one"], ["eins " * 19]
    folder = tmp_path_factory.mktemp("text")
    (folder / "en").write_text("\n".join(source) + "\n", encoding="utf-8")
    (folder / "de").write_text("\n".join(target) + "\n", encoding="utf-8")
    (folder / "valid.en").write_text("one two\nthree\n", encoding="utf-8")
    (folder / "valid.de").write_text("eins zwei\ndrei\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def finished(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that went to its end; to be read only."""
    out = tmp_path_factory.mktemp("runs") / "words"
    train(recipe_for(text), out, command="crosshead train --out words")
    return out
