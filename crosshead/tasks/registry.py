"""Tasks of training: how each task reads its data and judges its model."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.bundle.io import Bundle
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.parallel_corpus import read_parallel
from crosshead.tasks.text_corpus import MaskedCorpus, read_text
from crosshead.tasks.validators import Judge, MaskedJudge, TextJudge, TranslationJudge


class Task(NamedTuple):
    """One kind of data."""

    read: Callable[..., Corpus]
    judge: Callable[..., Judge[Any]]


TASKS = {
    "translation": Task(read_parallel, TranslationJudge),
    "language": Task(read_text, TextJudge),
    "masked": Task(partial(read_text, kind=MaskedCorpus), MaskedJudge),
}
"""By the `task` of a model's configuration."""


def read_corpus(
    recipe: Recipe,
    base: Bundle | None,
    resumed: Path | None,
    say: Callable[[str], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Corpus:
    """The data of a recipe: see `read_parallel` and `read_text`."""
    return TASKS[recipe.model.task].read(recipe, base, resumed, say, should_stop)
