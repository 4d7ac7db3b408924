"""Masked language modelling: models that predict masked tokens."""

from typing import Any, ClassVar

from torch import Tensor

from crosshead.bundle.config import BundleScore
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.likelihood import masked_scores
from crosshead.tasks.masked.mask_filler import MARK, MaskFiller, masked_windows
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.text_corpus import (
    SAMPLE_TOKENS,
    MaskedCorpus,
    MonolingualRecipe,
    MonolingualTask,
    TextCorpus,
    TextValidator,
)
from crosshead.tasks.usability import Findings, Sample
from crosshead.tasks.validation import LOSS, Metric, Validation, Validator
from crosshead.text.streams import decode_text


class MaskedValidator(TextValidator):
    """Validates by the loss of masked tokens of the validation text."""

    def search_description(self) -> str:
        """Return a short description of the context of each masked token."""
        return f"windows of {self.corpus.context:,} tokens"

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """Return the loss of the masked tokens, which are the same each time."""
        self.bundle_of(weights)
        corpus = self.corpus
        windows = masked_windows(corpus.valid, corpus.context, corpus.target_tokenizer.vocab_size)
        plan = windows.in_order(self.recipe.train.batch_tokens)
        means = self.means(windows.collate(rows.tolist()) for rows in plan)
        return Validation(means)

    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return the scores of predicting masked tokens, and samples of filled lines."""
        filler = MaskFiller(self.bundle_of(weights))
        found = filler.score_ids(self.corpus.valid, progress=lambda share: self.stop_if_asked())
        scores = masked_scores(found)
        return Findings(
            [BundleScore.of(each, "validation") for each in scores],
            self.frequency_faults(found.windows),
            ("masked", "filled", "original"),
            self._filled(filler),
        )

    def _filled(self, filler: MaskFiller) -> list[Sample]:
        """Return lines of the validation text with one masked token each, filled by the model."""
        tokenizer = self.corpus.target_tokenizer
        text = decode_text(tokenizer, self.corpus.valid.ids[1 : 20 * SAMPLE_TOKENS].tolist())
        samples = []
        for line in text.split("\n")[1:-1]:
            # Usually a word is a token. With characters or bytes a character is one.
            units = list(line) if tokenizer.kind in ("characters", "bytes") else line.split(" ")
            if len(units) >= 4 and len(tokenizer.encode(line)) + 4 < self.corpus.context:
                between = "" if tokenizer.kind in ("characters", "bytes") else " "
                units[len(units) // 2] = MARK
                hidden = between.join(units)
                samples.append(Sample(hidden, filler(hidden), line))
            if len(samples) == 3:
                break
        return samples


class MaskedTask(MonolingualTask):
    """Masked language modelling: prediction of masked tokens."""

    name: ClassVar[str] = "masked"
    recipe: ClassVar[type[Recipe]] = MonolingualRecipe
    pipeline: ClassVar[type[Pipeline]] = MaskFiller
    validator: ClassVar[type[Validator[Any, Any, Any]]] = MaskedValidator
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS,)
    architecture: ClassVar[str] = "encoder"
    corpus: ClassVar[type[TextCorpus]] = MaskedCorpus
