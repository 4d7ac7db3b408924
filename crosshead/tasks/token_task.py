"""The base of tasks whose models predict tokens, and of their data."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from crosshead.bundle.base import Bundle, BundleConfig
from crosshead.bundle.origin import ImportOrigin
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.models.base import Model, TokenModelConfig
from crosshead.models.registry import build_model
from crosshead.recipe.presets import Sections
from crosshead.recipe.text_recipe import TextRecipe
from crosshead.system.progress import counted
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.token_loss import token_loss
from crosshead.text.profile import TextProfile
from crosshead.text.tokenizers import MOST_PIECES, Tokenizer, TokenizerConfig, save_tokenizers


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


@dataclass(frozen=True)
class TokenCorpus(Corpus):
    """Text as tokens."""

    tokenizer: TokenizerConfig
    """Settings of the tokenizers, with the chosen vocabulary size."""
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    """The tokenizer of each side. Monolingual text uses the same tokenizer for both."""

    imported_from: ImportOrigin | None = field(default=None, kw_only=True)
    """The origin of the imported model that training starts from, or None."""

    kind: ClassVar[type[Bundle]] = TextBundle

    def with_origin(self, origin: ImportOrigin | None) -> Self:
        """Return the same data for a model that is tuned from an imported one."""
        return replace(self, imported_from=origin)

    @property
    def profile(self) -> TextProfile | None:
        """Statistics of the training pairs, or None if the text has no pairs."""
        return None

    def bundle_config(self, recipe: TextRecipe, longest_input: int) -> TextBundleConfig:
        """Return the configuration of the run's bundle, before its model is scored."""
        return TextBundleConfig(
            task=recipe.model.task,
            model=recipe.model,
            joint_tokenizer=recipe.tokenizer.joint,
            source_vocabulary=self.source_tokenizer.vocab_size,
            target_vocabulary=self.target_tokenizer.vocab_size,
            longest_source=longest_input,
            decode=recipe.decode,
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
            license=recipe.data.license,
            profile=self.profile,
            origin=self.imported_from,
            guided=recipe.train.guided_alignment > 0,
        )

    def bundle(self, config: BundleConfig, model: Model) -> TextBundle:
        """Return the bundle of a model, with the tokenizers."""
        return TextBundle(config, model, self.source_tokenizer, self.target_tokenizer)  # type: ignore[arg-type]

    def completed(self, recipe: TextRecipe) -> TextRecipe:
        """Return the recipe with the chosen vocabulary size."""
        return recipe.model_copy(update={"tokenizer": self.tokenizer})

    def facts(self) -> str:
        """Return a clause on the size of the vocabulary."""
        sizes = f"{self.source_tokenizer.vocab_size:,}"
        if not self.tokenizer.joint:
            sizes += f" and {self.target_tokenizer.vocab_size:,}"
        return f"vocabulary {sizes}"

    def write_files(self, out: Path, names: Mapping[str, str]) -> None:
        """Write the tokenizers."""
        tokenizers = self.source_tokenizer, self.target_tokenizer
        save_tokenizers(out, *tokenizers, joint=self.tokenizer.joint)


def unknown_words(tokenizer: Tokenizer, texts: Iterable[str], name: str) -> list[str]:
    """Return a warning about texts with words that a vocabulary lacks, or nothing.

    A vocabulary is learned before a model, so fine-tuning does not change it.
    """
    missing: Counter[str] = Counter()
    found = total = 0
    for text in texts:
        unknown = tokenizer.unknown(text)
        missing.update(unknown)
        found, total = found + bool(unknown), total + 1
    if not found:
        return []
    shown = ", ".join(repr(word) for word, _ in missing.most_common(5))
    return [
        f"warning: {found:,} of {counted(total, name)} have words that the vocabulary lacks, which "
        f"the model cannot learn: {shown}{', ...' if len(missing) > 5 else ''}"
    ]
