"""The base of tasks whose models predict tokens."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.data.text.tokenizers import MOST_PIECES
from crosshead.models.base import Model, TokenModelConfig
from crosshead.models.registry import build_model
from crosshead.recipe.presets import Sections
from crosshead.tasks.base import Task
from crosshead.tasks.token_loss import token_loss


class TokenTask(Task):
    """A task whose models predict tokens."""

    bundle: ClassVar[type[Bundle]] = TextBundle

    loss = staticmethod(token_loss)

    def example(self, model: TokenModelConfig, preset: Sections) -> tuple[str, Callable[[], Model]]:
        """Return the model of a preset with its vocabulary, or with the largest one."""
        stated = preset.get("tokenizer", {}).get("vocab_size")
        size = stated or MOST_PIECES
        return f"{'' if stated else 'to '}{size:,}", partial(build_model, model, size, size)

    def sections(self, bundle: Bundle) -> dict[str, dict[str, Any]]:
        """Return the model, the (source) tokenizer, the languages and the licence of a bundle."""
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
        }
