import math

import pytest
import torch

from crosshead.bundle.weights import weights_of
from crosshead.tasks.token_loss import LabelSmoothing, token_loss
from crosshead.tasks.translation.task import BLEU, TranslationValidator
from crosshead.tasks.validation import LOSS, Validation
from crosshead.text.batching import collate
from tests.tasks.validators import weights


def test_the_loss_is_the_mean_over_the_tokens_of_all_batches(
    validator: TranslationValidator,
) -> None:
    found = validator.validate(weights(validator, 1))
    examples = validator.corpus.valid_examples
    assert len(examples) > 1  # and a batch holds 8 tokens, so there are several batches
    whole = collate(examples, list(range(len(examples))), validator.bundle.model.config.start_token)
    with torch.inference_mode():
        sums = token_loss(validator.bundle.model, whole, LabelSmoothing(0.2))
    assert found.values["loss"] == pytest.approx(float(sums.sums["loss"]) / sums.count, rel=1e-5)
    assert found.values["nll"] == pytest.approx(float(sums.sums["nll"]) / sums.count, rel=1e-5)
    assert 0 < found.values["nll"] < 3 * math.log(validator.bundle.config.target_vocabulary)


def test_it_judges_the_weights_it_is_given(validator: TranslationValidator) -> None:
    first, other = weights(validator, 1), weights(validator, 2)
    found = validator.validate(first)
    assert validator.validate(other) != found
    assert validator.validate(first) == found  # no dropout, nothing of the others left


def test_the_bundle_is_that_of_the_recipe(validator: TranslationValidator) -> None:
    chosen = weights(validator, 1)
    bundle = validator.bundle_of(chosen)
    assert all(torch.equal(chosen[name], each) for name, each in weights_of(bundle.model).items())
    assert not bundle.model.training
    config = bundle.config
    assert (config.longest_source, config.decode) == (5, validator.recipe.decode)
    assert config.source_vocabulary == validator.corpus.source_tokenizer.vocab_size


@pytest.mark.parametrize(
    ("score", "best", "is_better"),
    [
        ([2.0, -3.9], [2.2, -7.6], True),  # both are chance, so the loss decides
        ([2.2, -7.6], [2.0, -3.9], False),
        ([5.1, -9.0], [4.9, -3.9], True),
        ([20.0, -3.0], [21.0, -9.0], False),
        ([20.0, -3.0], [20.0, -3.0], False),
    ],
)
def test_bleu_that_is_chance_does_not_choose_the_weights(
    score: list[float], best: list[float], is_better: bool
) -> None:
    assert Validation.is_better(score, best, [LOSS, BLEU], "bleu") == is_better
    by_loss = Validation.is_better(score[::-1], best[::-1], [LOSS, BLEU], "loss")
    assert by_loss == (score[1] > best[1])
