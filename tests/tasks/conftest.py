"""A validator of translations on a small text."""

from itertools import permutations
from pathlib import Path

import pytest

from crosshead.recipe.compose import compose
from crosshead.tasks.translation.task import TranslationValidator
from tests.cli.conftest import corpus, refused  # noqa: F401
from tests.tasks.reading import read_corpus
from tests.tasks.validators import (
    validator_of,
)


@pytest.fixture
def validator(tmp_path: Path) -> TranslationValidator:
    orders = list(permutations("abcde"))
    lines = [" ".join(orders[3 * n][: 2 + n % 4]) for n in range(40)]
    (tmp_path / "en").write_text("\n".join(lines) + "\n")
    (tmp_path / "de").write_text("\n".join(line.upper() for line in lines) + "\n")
    recipe = compose(
        flags={"data": {"source": str(tmp_path / "en"), "target": str(tmp_path / "de")}},
        assignments=[
            "tokenizer.kind=words", "encoder_layers=1", "decoder_layers=1", "d_model=16", "d_ff=16",
            "heads=2", "model.dropout=0.5", "train.batch_tokens=8", "data.max_length=7",
            "decode.beam=2", "decode.max_extra=3", "label_smoothing=0.2",
        ],
    )  # fmt: skip
    return validator_of(recipe, read_corpus(recipe, None, None), 5)
