"""The base of tasks whose models predict tokens."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import setting
from crosshead.models.base import Model, TokenModelConfig
from crosshead.models.registry import build_model
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.base import Task
from crosshead.tasks.token_loss import token_loss
from crosshead.text.tokenizers import MOST_PIECES

_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
"""The spelling of licences on model hubs, such as `cc-by-4.0`."""


def licence_lines(licence: str | None) -> list[str]:
    """Return a warning about a licence that no model hub spells so, or nothing."""
    if licence is None or _LICENCE.fullmatch(licence):
        return []
    spelled = re.sub(r"[\s_]+", "-", licence.strip().lower())
    known = spelled if _LICENCE.fullmatch(spelled) else "other"
    return [
        f"warning: the licence {licence!r} is no identifier of model hubs, which are in lower case "
        "and without spaces, such as cc-by-4.0 or other; a hub may refuse the card: write "
        f"{setting('data.license', known, has_flag=True)}"
    ]


class TokenTask(Task):
    """A task whose models predict tokens."""

    bundle: ClassVar[type[Bundle]] = TextBundle

    loss = staticmethod(token_loss)

    def prepare(self, recipe: Any) -> tuple[Recipe, list[str]]:
        """Return the recipe, and a warning about the spelling of its licence."""
        return recipe, licence_lines(getattr(recipe.data, "license", None))

    def example(self, model: TokenModelConfig, preset: Sections) -> tuple[str, Callable[[], Model]]:
        """Return the model of a preset with its vocabulary, or with the largest one."""
        stated = preset.get("tokenizer", {}).get("vocab_size")
        size = stated or MOST_PIECES
        return f"{'' if stated else 'to '}{size:,}", partial(build_model, model, size, size)

    def sections(self, bundle: Bundle) -> dict[str, dict[str, Any]]:
        """Return the model, the (source) tokenizer, the search, the languages and the licence."""
        assert isinstance(bundle, TextBundle)
        config, tokenizer = bundle.config, bundle.source_tokenizer
        return {
            "data": {
                "source_language": config.source_language,
                "target_language": config.target_language,
                "license": config.license,
                **({"directions": "tagged"} if config.target_languages else {}),
            },
            "tokenizer": {
                "kind": tokenizer.kind,
                "vocab_size": tokenizer.vocab_size,
                "joint": config.joint_tokenizer,
                "special": tokenizer.special,
                "sampling": tokenizer.sampling,
            },
            "model": config.model.model_dump(),
            "decode": config.decode.model_dump(),
        }
