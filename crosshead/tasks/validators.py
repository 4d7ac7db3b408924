"""Validation: how good some weights are, by the loss and by what the model is for."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import torch
from torch import Tensor

from crosshead.bundle.config import BundleConfig, BundleScore
from crosshead.bundle.io import Bundle
from crosshead.bundle.weights import build_model, set_weights
from crosshead.data.batching import Batch, collate, example_lengths, plan_in_order
from crosshead.data.text.streams import Windows, decode_text
from crosshead.decoding.search import DecodeConfig
from crosshead.evaluation import (
    bits_per_character,
    bleu,
    corpus_scores,
    masked_scores,
    text_scores,
)
from crosshead.models.base import RememberingModel
from crosshead.pipelines.mask_filler import MARK, Filler, hidden_windows
from crosshead.pipelines.text_generator import Writer
from crosshead.pipelines.translator import Translator
from crosshead.recipe.recipe import Recipe, search_name
from crosshead.tasks.corpus import Corpus, Stopped
from crosshead.tasks.parallel_corpus import ParallelCorpus
from crosshead.tasks.text_corpus import TextCorpus
from crosshead.tasks.token_loss import batch_loss
from crosshead.tasks.usability import (
    Findings,
    Sample,
    frequency_faults,
    translation_faults,
    translation_samples,
)
from crosshead.tasks.validation import Validation

C = TypeVar("C", bound=Corpus)

GREEDY = DecodeConfig(beam=1)

SAMPLE_TOKENS = 40
"""A text is continued by so many tokens, after as many of the validation text."""


def bundle_config(recipe: Recipe, corpus: Corpus, reach: int) -> BundleConfig:
    """Return what a bundle of a run says, before its translations are scored.

    Args:
        recipe: That of the run.
        corpus: What it is trained on.
        reach: The tokens of the longest source that its weights have seen.
    """
    return BundleConfig(
        task=recipe.model.task,
        model=recipe.model,
        joint_tokenizer=recipe.tokenizer.joint,
        source_vocabulary=corpus.source_tokenizer.vocab_size,
        target_vocabulary=corpus.target_tokenizer.vocab_size,
        longest_source=reach,
        decode=recipe.decode,
        source_language=recipe.data.source_language,
        target_language=recipe.data.target_language,
    )


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
        config = bundle_config(recipe, corpus, reach)
        model = build_model(recipe.model, source.vocab_size, target.vocab_size).eval()
        self.bundle = Bundle(config, model.to(device), source, target)

    def bundle_of(self, weights: dict[str, Tensor]) -> Bundle:
        """The bundle with these weights; the next call changes it."""
        set_weights(self.bundle.model, weights)
        return self.bundle

    @abstractmethod
    def how(self) -> str:
        """A few words on the search or the reading behind the scores."""

    @abstractmethod
    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """The loss on the validation set, and what else there is to say of it quickly."""

    @abstractmethod
    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return what the bundle is to tell of these weights, and what they make of samples."""

    @property
    def validations_to_score(self) -> float:
        """Estimated duration of the end of the run (last validation and scoring), in units of one
        validation.
        """
        return 1.0

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


class _OfText(Judge[TextCorpus]):
    """The common base of the judges of monolingual text."""

    def _frequency_faults(self, nll: float) -> list[str]:
        corpus = self.corpus
        size = corpus.target_tokenizer.vocab_size
        return frequency_faults(nll, corpus.stream.ids, corpus.valid.ids, size)


class TranslationJudge(Judge[ParallelCorpus]):
    """Judges by the loss of the references, and by what is translated."""

    def how(self) -> str:
        """A few words on the search for translations."""
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

    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return BLEU and chrF on the validation set, searched as the recipe says, and samples."""
        self.bundle_of(weights)
        valid = self.corpus.valid
        translations = self._translate(self.recipe.decode)
        found = corpus_scores(translations, valid.target)
        texts = valid.source, translations, valid.target
        return Findings(
            [BundleScore.of(score, "validation") for score in found],
            translation_faults(found[0].value, *texts),
            samples=translation_samples(*texts),
        )

    @property
    def validations_to_score(self) -> float:
        """A beam of n hypotheses takes up to n times as long as the greedy search of validation."""
        return float(self.recipe.decode.beam)

    def _translate(self, decode: DecodeConfig) -> list[str]:
        translator = Translator(self.bundle)
        found = translator.translate(
            self.corpus.valid.source, decode=decode, progress=lambda share: self._check()
        )
        return [best[0].text for best in found]


class TextJudge(_OfText):
    """Judges by the loss of the validation text, in windows as those of training."""

    def how(self) -> str:
        """A few words on the context of each token."""
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

    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return perplexity and bits per character of the validation text, and a continuation."""
        writer = Writer(self.bundle_of(weights))
        found = writer.score_ids(self.corpus.valid, progress=lambda share: self._check())
        nll = sum(nats for nats, _, _ in found.windows) / sum(each[1] for each in found.windows)
        return Findings(
            [BundleScore.of(each, "validation") for each in text_scores(found)],
            self._frequency_faults(nll),
            ("text", "continued", "original"),
            self._continued(writer),
        )

    def _continued(self, writer: Writer) -> list[Sample]:
        """Return continuations of the beginning of the validation text."""
        ids = self.corpus.valid.ids[1 : 1 + 2 * SAMPLE_TOKENS].tolist()
        given, wanted = (
            decode_text(self.corpus.target_tokenizer, part)
            for part in (ids[:SAMPLE_TOKENS], ids[SAMPLE_TOKENS:])
        )
        return [Sample(given, "".join(writer.write(given, length=SAMPLE_TOKENS)), wanted)]


class MaskedJudge(_OfText):
    """Judges by the loss of what is hidden in the validation text."""

    def how(self) -> str:
        """A few words on the context of each hidden token."""
        return f"windows of {self.corpus.context:,} tokens"

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """The loss of what is hidden: the same tokens each time."""
        self.bundle_of(weights)
        corpus = self.corpus
        windows = hidden_windows(corpus.valid, corpus.context, corpus.target_tokenizer.vocab_size)
        plan = windows.in_order(self.recipe.train.batch_tokens)
        loss, nll = self._losses(windows.collate(rows.tolist()) for rows in plan)
        return Validation(loss, nll, {})

    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return how well the model finds what is hidden, and some lines that it fills."""
        filler = Filler(self.bundle_of(weights))
        found = filler.score_ids(self.corpus.valid, progress=lambda share: self._check())
        nll = sum(nats for nats, _, _ in found.windows) / sum(each[1] for each in found.windows)
        return Findings(
            [BundleScore.of(each, "validation") for each in masked_scores(found)],
            self._frequency_faults(nll),
            ("hidden", "filled", "original"),
            self._filled(filler),
        )

    def _filled(self, filler: Filler) -> list[Sample]:
        """Lines of the validation text, each with a token hidden, as the model fills them."""
        tokenizer = self.corpus.target_tokenizer
        text = decode_text(tokenizer, self.corpus.valid.ids[1 : 20 * SAMPLE_TOKENS].tolist())
        samples = []
        for line in text.split("\n")[1:-1]:
            # A word is a token of its own as a rule, a character in other vocabularies.
            units = list(line) if tokenizer.kind in ("characters", "bytes") else line.split(" ")
            if len(units) >= 4 and len(tokenizer.encode(line)) + 4 < self.corpus.context:
                between = "" if tokenizer.kind in ("characters", "bytes") else " "
                units[len(units) // 2] = MARK
                hidden = between.join(units)
                samples.append(Sample(hidden, filler(hidden), line))
            if len(samples) == 3:
                break
        return samples
