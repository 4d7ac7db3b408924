"""Language modelling: models that continue monolingual text."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from crosshead.bundle.config import BundleScore
from crosshead.models.base import RememberingModel
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.likelihood import bits_per_character, text_scores
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.text_corpus import (
    SAMPLE_TOKENS,
    MonolingualRecipe,
    MonolingualTask,
    TextValidator,
)
from crosshead.tasks.usability import Findings, Sample
from crosshead.tasks.validation import LOSS, Metric, Validation, Validator
from crosshead.text.streams import Windows, decode_text

BITS = Metric("bits_per_character", "bits per character", higher_is_better=False)


class LanguageValidator(TextValidator):
    """Validates by the loss of the validation text, in windows of the training length."""

    def search_description(self) -> str:
        """Return a short description of the context of each token."""
        if isinstance(self.bundle.model, RememberingModel):
            return "one pass, with memory"
        return f"windows of {self.corpus.context:,} tokens"

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """Return the loss of all validation text, and bits per character.

        Windows are independent. A model with a memory reads the text in one pass, and its loss is
        not smoothed.
        """
        bundle, valid = self.bundle_of(weights), self.corpus.valid
        if isinstance(bundle.model, RememberingModel):
            found = TextGenerator(bundle).score_ids(
                valid, progress=lambda share: self.stop_if_asked()
            )
            nll = sum(nats for nats, _, _ in found.windows) / (len(valid) - 1)
            means = {"loss": nll, "nll": nll}
        else:
            windows = Windows(valid.ids, self.corpus.context)
            plan = windows.in_order(self.recipe.train.batch_tokens)
            means = self.means(windows.collate(rows.tolist()) for rows in plan)
        bits = bits_per_character(means["nll"] * (len(valid) - 1), valid.characters)
        return Validation({**means, "bits_per_character": bits})

    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return perplexity and bits per character of the validation text, and a sample."""
        generator = TextGenerator(self.bundle_of(weights))
        found = generator.score_ids(self.corpus.valid, progress=lambda share: self.stop_if_asked())
        scores = text_scores(found)
        return Findings(
            [BundleScore.of(each, "validation") for each in scores],
            self.frequency_faults(found.windows),
            ("text", "continued", "original"),
            self._continued(generator),
        )

    def _continued(self, generator: TextGenerator) -> list[Sample]:
        """Return a continuation of the beginning of the validation text."""
        ids = self.corpus.valid.ids[1 : 1 + 2 * SAMPLE_TOKENS].tolist()
        given, wanted = (
            decode_text(self.corpus.target_tokenizer, part)
            for part in (ids[:SAMPLE_TOKENS], ids[SAMPLE_TOKENS:])
        )
        return [Sample(given, "".join(generator.write(given, length=SAMPLE_TOKENS)), wanted)]


class LanguageTask(MonolingualTask):
    """Language modelling: continuation of text."""

    name: ClassVar[str] = "language"
    recipe: ClassVar[type[Recipe]] = MonolingualRecipe
    pipeline: ClassVar[type[Pipeline]] = TextGenerator
    validator: ClassVar[type[Validator[Any, Any, Any]]] = LanguageValidator
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, BITS)
    architecture: ClassVar[str] = "language"

    def recognizes(self, data: Mapping[str, Any]) -> bool:
        """Return whether `[data]` names monolingual text."""
        return bool(data.get("text"))
