"""The base of tasks on monolingual text: their recipe, their data and their validation."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ValidationInfo, model_validator

from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.config import called
from crosshead.recipe.text_recipe import TextRecipe
from crosshead.tasks.base import Say
from crosshead.tasks.text_corpus import TextCorpus, read_text
from crosshead.tasks.token_task import TokenTask
from crosshead.tasks.usability import frequency_faults
from crosshead.tasks.validation import Validator
from crosshead.text.parallel.section import PAIRED

SAMPLE_TOKENS = 40
"""The number of tokens in a sample continuation, and in the text before it."""


class MonolingualRecipe(TextRecipe):
    """A run on monolingual text."""

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        for key in PAIRED:
            if getattr(self.data, key):
                raise ValueError(
                    f"{called(f'data.{key}', info)} is for translation; a model of monolingual "
                    f"text ({self.model.architecture}) is trained on {called('data.text', info)}"
                )
        if self.data.directions != "one":
            raise ValueError("data.directions is for translation; leave it out")
        for key, usual in (("share", 1.0), ("fold", [])):
            if getattr(self.data, key) != usual:
                raise ValueError(f"data.{key} is for pairs of texts; leave it out")
        if self.data.context > self.train.batch_tokens:
            raise ValueError(
                f"data.context {self.data.context} does not fit into train.batch_tokens "
                f"{self.train.batch_tokens}; lower the first or raise the second"
            )
        self.model.check_context(self.data.context)
        if not self.tokenizer.joint:
            raise ValueError("monolingual text has one side: set tokenizer.joint = true")
        if self.tokenizer.sampling:
            raise ValueError("tokenizer.sampling is for translation; leave it out")
        return self


class MonolingualTask(TokenTask):
    """A task on monolingual text."""

    corpus: ClassVar[type[TextCorpus]] = TextCorpus
    """The class of its corpora."""

    def read(
        self,
        recipe: TextRecipe,
        base: Bundle | None,
        resumed: Path | None,
        say: Say = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> TextCorpus:
        """Read, split and tokenize text: see `read_text`."""
        assert base is None or isinstance(base, TextBundle)
        return read_text(recipe, base, resumed, say, should_stop, self.corpus)

    def sections(self, bundle: Bundle) -> dict[str, dict[str, Any]]:
        """Return the settings of a bundle, including the length of its windows."""
        assert isinstance(bundle, TextBundle)
        found = super().sections(bundle)
        found["data"]["context"] = bundle.config.longest_source
        return found


class TextValidator(Validator[TextRecipe, TextCorpus, TextBundle]):
    """The base of validation on monolingual text."""

    def frequency_faults(self, windows: Sequence[tuple[float, int, int]]) -> list[str]:
        """Return a clause if a model is hardly better than token frequencies."""
        corpus = self.corpus
        nll = sum(nats for nats, _, _ in windows) / sum(tokens for _, tokens, _ in windows)
        size = corpus.target_tokenizer.vocab_size
        return frequency_faults(nll, corpus.stream.ids, corpus.valid.ids, size)
