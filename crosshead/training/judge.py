"""Validation: how good some weights are, by the loss and by what they translate."""

from collections.abc import Callable

import torch
from torch import Tensor

from crosshead.bundle import Bundle, BundleConfig, BundleScore, build_model, set_weights
from crosshead.data.batching import collate, example_lengths, plan_in_order
from crosshead.decoding.search import DecodeConfig
from crosshead.evaluation import bleu, corpus_scores
from crosshead.pipelines import Translator
from crosshead.training.corpus import Corpus, Stopped
from crosshead.training.loop import Validation
from crosshead.training.recipe import Recipe
from crosshead.training.updater import batch_loss

GREEDY = DecodeConfig(beam=1)


class Judge:
    """Validation in float32, with weights that somebody else trains.

    All of it raises `Stopped`, after the batch that is under way, once `should_stop` says so.
    """

    def __init__(
        self,
        recipe: Recipe,
        corpus: Corpus,
        longest_source: int,
        device: torch.device,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.recipe, self.corpus, self.device = recipe, corpus, device
        self.should_stop = should_stop
        source, target = corpus.source_tokenizer, corpus.target_tokenizer
        config = BundleConfig(
            model=recipe.model,
            joint_tokenizer=recipe.tokenizer.joint,
            source_vocabulary=source.vocab_size,
            target_vocabulary=target.vocab_size,
            longest_source=longest_source,
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

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """The loss of the references, and the BLEU of greedy translations."""
        bundle = self.bundle_of(weights)
        examples, smoothing = self.corpus.valid_examples, self.recipe.train.label_smoothing
        loss = nll = count = 0.0
        lengths = example_lengths(examples)
        most = min(self.recipe.train.batch_tokens, self.recipe.decode.batch_tokens)
        budget = max(most, int(lengths.max()))
        with torch.inference_mode():
            for rows in plan_in_order(lengths, budget):
                self._check()
                batch = collate(examples, rows.tolist(), bundle.model.config.start_token)
                sums = batch_loss(bundle.model, batch.to(self.device), smoothing)
                loss, nll = loss + float(sums.loss), nll + float(sums.nll)
                count += sums.count
        translations = self._translate(GREEDY)
        score = bleu(translations, self.corpus.valid.target)
        return Validation(loss / count, nll / count, score)

    def scores(self, weights: dict[str, Tensor]) -> list[BundleScore]:
        """BLEU and chrF on the validation set, searched as the recipe says."""
        self.bundle_of(weights)
        translations = self._translate(self.recipe.decode)
        return [
            BundleScore(
                metric=score.metric,
                value=score.value,
                signature=score.signature,
                test_set="validation",
            )
            for score in corpus_scores(translations, self.corpus.valid.target)
        ]

    def _translate(self, decode: DecodeConfig) -> list[str]:
        translator = Translator(self.bundle)
        found = translator.translate(
            self.corpus.valid.source, decode=decode, progress=lambda share: self._check()
        )
        return [best[0].text for best in found]

    def _check(self) -> None:
        if self.should_stop():
            raise Stopped
