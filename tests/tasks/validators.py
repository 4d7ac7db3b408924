"""Validators of small models, and weights to validate."""

from pathlib import Path
from typing import Any

import torch

from crosshead.bundle.weights import weights_of
from crosshead.models.registry import build_model
from crosshead.recipe.compose import compose
from crosshead.tasks.language.task import LanguageValidator
from crosshead.tasks.registry import task_of
from crosshead.tasks.text_corpus import read_text
from crosshead.tasks.translation.task import TranslationValidator

CPU = torch.device("cpu")


def validator_of(recipe: Any, corpus: Any, longest_input: int) -> Any:
    return task_of(recipe).make_validator(recipe, corpus, longest_input, CPU)


def weights(
    validator: TranslationValidator | LanguageValidator, seed: int
) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    config = validator.bundle.config
    return weights_of(build_model(config.model, config.source_vocabulary, config.target_vocabulary))


CONTEXT = 16


WRITTEN = "".join(f"{a}{b} and {b}{a}\n" for a in "abcdef" for b in "uvwxyz")


UNSEEN = "au Zebra\u2603 and\n\nQQ ua"


def text_validator(tmp_path: Path, valid: str, kind: str, *assignments: str) -> LanguageValidator:
    (tmp_path / "text").write_text(WRITTEN)
    (tmp_path / "valid").write_text(valid)
    data = {"text": [str(tmp_path / "text")], "valid_text": [str(tmp_path / "valid")]}
    recipe = compose(
        flags={"data": {**data, "context": CONTEXT}},
        assignments=[
            f"tokenizer.kind={kind}", "layers=1", "d_model=16", "d_ff=16", "heads=2",
            "model.dropout=0.5", "train.batch_tokens=32", *assignments,
        ],
    )  # fmt: skip
    corpus = read_text(recipe, None, None)
    return validator_of(recipe, corpus, corpus.longest_input)


def masked_recipe(tmp_path: Path, valid: str) -> Any:
    (tmp_path / "text").write_text(WRITTEN)
    (tmp_path / "valid").write_text(valid)
    data = {"text": [str(tmp_path / "text")], "valid_text": [str(tmp_path / "valid")]}
    return compose(
        flags={"data": {**data, "context": CONTEXT}},
        assignments=[
            "architecture=encoder", "tokenizer.kind=characters", "layers=1", "d_model=16",
            "d_ff=16", "heads=2", "model.dropout=0.5", "train.batch_tokens=32",
            "label_smoothing=0.2",
        ],
    )  # fmt: skip
