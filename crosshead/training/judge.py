"""Validation: how good some weights are, by the loss and by what the model is for."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import torch
from torch import Tensor

from crosshead.bundle import Bundle, BundleConfig, BundleScore, build_model, set_weights
from crosshead.data.batching import Batch, collate, example_lengths, plan_in_order
from crosshead.data.stream import Windows
from crosshead.decoding.search import DecodeConfig
from crosshead.evaluation import (
    bits_per_character,
    bleu,
    corpus_scores,
    masked_scores,
    text_scores,
)
from crosshead.filler import Filler, hidden_windows
from crosshead.models.base import RememberingModel
from crosshead.pipelines import Translator
from crosshead.training.corpus import Corpus, Stopped
from crosshead.training.loop import Validation
from crosshead.training.parallel import ParallelCorpus
from crosshead.training.recipe import Recipe, search_name
from crosshead.training.text import TextCorpus
from crosshead.training.updater import batch_loss
from crosshead.writer import Writer

C = TypeVar("C", bound=Corpus)

GREEDY = DecodeConfig(beam=1)


class Judge(ABC, Generic[C]):
    """Validation in float32, with weights that somebody else trains.

    All of it raises `Stopped`, after the batch that is under way, once `should_stop` says so.
    """

    def __init__(
        self,
        recipe: Recipe,
        corpus: C,
        reach: int,
        device: torch.device,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.recipe, self.corpus, self.device = recipe, corpus, device
        self.should_stop = should_stop
        source, target = corpus.source_tokenizer, corpus.target_tokenizer
        config = BundleConfig(
            task=recipe.model.task,
            model=recipe.model,
            joint_tokenizer=recipe.tokenizer.joint,
            source_vocabulary=source.vocab_size,
            target_vocabulary=target.vocab_size,
            longest_source=reach,
            decode=recipe.decode,
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
        )
        model = build_model(recipe.model, source.vocab_size, target.vocab_size).eval()
        self.bundle = Bundle(config, model.to(device), source, target)

    def bundle_of(self, weights: dict[str, Tensor]) -> Bundle:
        """The bundle with these weights; the next call changes it."""
        set_weights(self.bundle.model, weights)
        return self.bundle

    @abstractmethod
    def how(self) -> str:
        """How what was scored came about, in a few words."""

    @abstractmethod
    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """The loss on the validation set, and what else there is to say of it quickly."""

    @abstractmethod
    def scores(self, weights: dict[str, Tensor]) -> list[BundleScore]:
        """The scores on the validation set that the bundle is to tell."""

    def _losses(self, batches: Iterable[Batch]) -> tuple[float, float]:
        """The mean loss and negative log-likelihood of a target token."""
        smoothing = self.recipe.train.label_smoothing
        loss = nll = count = 0.0
        with torch.inference_mode():
            for batch in batches:
                self._check()
                sums = batch_loss(self.bundle.model, batch.to(self.device), smoothing)
                loss, nll = loss + float(sums.loss), nll + float(sums.nll)
                count += sums.count
        return loss / count, nll / count

    def _check(self) -> None:
        if self.should_stop():
            raise Stopped


class TranslationJudge(Judge[ParallelCorpus]):
    """Judges by the loss of the references, and by what is translated."""

    def how(self) -> str:
        """How translations are searched."""
        return search_name(self.recipe.decode)

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """The loss of the references, and the BLEU of greedy translations."""
        bundle, examples = self.bundle_of(weights), self.corpus.valid_examples
        lengths = example_lengths(examples)
        most = min(self.recipe.train.batch_tokens, self.recipe.decode.batch_tokens)
        start = bundle.model.config.start_token
        loss, nll = self._losses(
            collate(examples, rows.tolist(), start)
            for rows in plan_in_order(lengths, max(most, int(lengths.max())))
        )
        score = bleu(self._translate(GREEDY), self.corpus.valid.target)
        return Validation(loss, nll, {"bleu": score})

    def scores(self, weights: dict[str, Tensor]) -> list[BundleScore]:
        """BLEU and chrF on the validation set, searched as the recipe says."""
        self.bundle_of(weights)
        translations = self._translate(self.recipe.decode)
        found = corpus_scores(translations, self.corpus.valid.target)
        return [BundleScore.of(score, "validation") for score in found]

    def _translate(self, decode: DecodeConfig) -> list[str]:
        translator = Translator(self.bundle)
        found = translator.translate(
            self.corpus.valid.source, decode=decode, progress=lambda share: self._check()
        )
        return [best[0].text for best in found]


class TextJudge(Judge[TextCorpus]):
    """Judges by the loss of the validation text, in windows as those of training."""

    def how(self) -> str:
        """How much a model sees of what stands before."""
        if isinstance(self.bundle.model, RememberingModel):
            return "read on, with its memory"
        return f"windows of {self.corpus.context:,} tokens"

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """The loss of all validation text, and bits per character.

        Each window is by itself; a model that remembers reads on, and its loss is not smoothed.
        """
        bundle, valid = self.bundle_of(weights), self.corpus.valid
        if isinstance(bundle.model, RememberingModel):
            found = Writer(bundle).score_ids(valid, progress=lambda share: self._check())
            nll = sum(nats for nats, _, _ in found.windows) / (len(valid) - 1)
            loss = nll
        else:
            windows = Windows(valid.ids, self.corpus.context)
            plan = windows.in_order(self.recipe.train.batch_tokens)
            loss, nll = self._losses(windows.collate(rows.tolist()) for rows in plan)
        bits = bits_per_character(nll * (len(valid) - 1), valid.characters)
        return Validation(loss, nll, {"bits_per_character": bits})

    def scores(self, weights: dict[str, Tensor]) -> list[BundleScore]:
        """Perplexity and bits per character of the validation text."""
        writer = Writer(self.bundle_of(weights))
        found = writer.score_ids(self.corpus.valid, progress=lambda share: self._check())
        return [BundleScore.of(each, "validation") for each in text_scores(found)]


class MaskedJudge(Judge[TextCorpus]):
    """Judges by the loss of what is hidden in the validation text."""

    def how(self) -> str:
        """How much a model sees around what is hidden."""
        return f"windows of {self.corpus.context:,} tokens"

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """The loss of what is hidden: the same tokens each time."""
        self.bundle_of(weights)
        corpus = self.corpus
        windows = hidden_windows(corpus.valid, corpus.context, corpus.target_tokenizer.vocab_size)
        plan = windows.in_order(self.recipe.train.batch_tokens)
        loss, nll = self._losses(windows.collate(rows.tolist()) for rows in plan)
        return Validation(loss, nll, {})

    def scores(self, weights: dict[str, Tensor]) -> list[BundleScore]:
        """How well the model finds what is hidden."""
        filler = Filler(self.bundle_of(weights))
        found = filler.score_ids(self.corpus.valid, progress=lambda share: self._check())
        return [BundleScore.of(each, "validation") for each in masked_scores(found)]
