"""Recipes of tasks whose models predict tokens, with a tokenizer and a search."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import SerializeAsAny

from crosshead.decoding.settings import DecodeConfig
from crosshead.models.registry import AnyTokenConfig
from crosshead.recipe.recipe import Recipe
from crosshead.text.parallel.section import DataConfig
from crosshead.text.tokenizers import TokenizerConfig


class TokenRecipe(Recipe):
    """The settings of a run whose model predicts tokens."""

    model: AnyTokenConfig
    tokenizer: TokenizerConfig
    decode: DecodeConfig

    predicts_tokens: ClassVar[bool] = True
    changeable: ClassVar[Mapping[str, frozenset[str]]] = {
        **Recipe.changeable,
        "decode": frozenset(DecodeConfig.model_fields),
    }
    left_open: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "tokenizer": {"vocab_size": None},
        **Recipe.left_open,
    }
    of_training: ClassVar[frozenset[str]] = Recipe.of_training | {"sampling"}
    fixed_by_bundle: ClassVar[tuple[str, ...]] = ("tokenizer", "model")


class TextRecipe(TokenRecipe):
    """The settings of a run on text."""

    data: SerializeAsAny[DataConfig]

    changeable: ClassVar[Mapping[str, frozenset[str]]] = {
        **TokenRecipe.changeable,
        "data": frozenset({"source_language", "target_language", "license"}),
    }
