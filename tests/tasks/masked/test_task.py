"""Validation of masked models: hidden tokens, the same each time."""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from crosshead.tasks.corpus import Stopped
from crosshead.tasks.masked.mask_filler import masked_windows
from crosshead.tasks.masked.task import MaskedValidator
from crosshead.tasks.text_corpus import MaskedCorpus
from crosshead.vocabulary import PAD
from tests.tasks.reading import read_corpus
from tests.tasks.validators import CONTEXT, WRITTEN, masked_recipe, validator_of, weights


@pytest.fixture
def validator(tmp_path: Path) -> MaskedValidator:
    recipe = masked_recipe(tmp_path, WRITTEN[:200])
    corpus = read_corpus(recipe)
    assert type(corpus) is MaskedCorpus
    found = validator_of(recipe, corpus, corpus.longest_input)
    assert isinstance(found, MaskedValidator)
    return found


def test_the_loss_is_the_mean_over_all_hidden_tokens(validator: MaskedValidator) -> None:
    chosen = weights(validator, 1)
    found, corpus = validator.validate(chosen).values, validator.corpus
    windows = masked_windows(corpus.valid, CONTEXT, corpus.target_tokenizer.vocab_size)
    sums, count = 0.0, 0
    for row in range(len(windows.lengths)):
        batch = windows.collate([row])
        hidden = batch.target_output != PAD
        with torch.inference_mode():
            logits = validator.bundle.model(*batch.inputs)[hidden]
        sums += float(F.cross_entropy(logits, batch.target_output[hidden], reduction="sum"))
        count += int(hidden.sum())
    assert 0 < count < len(corpus.valid)
    assert found["nll"] == pytest.approx(sums / count, rel=1e-5)
    assert found["loss"] != found["nll"]  # it is smoothed
    assert validator.search_description() == f"windows of {CONTEXT} tokens"


def test_the_same_weights_have_the_same_loss_and_others_another(validator: MaskedValidator) -> None:
    found = validator.validate(weights(validator, 1))
    assert validator.validate(weights(validator, 2)) != found
    assert validator.validate(weights(validator, 1)) == found


def test_the_end_scores_the_same_hidden_tokens(validator: MaskedValidator) -> None:
    chosen = weights(validator, 1)
    nll = validator.validate(chosen).values["nll"]
    findings = validator.findings(chosen)
    [fault] = findings.faults  # nothing was learned
    assert f"{nll:.2f} nats" in fault
    scores = {each.metric: each for each in findings.scores}
    assert math.log(scores["masked perplexity"].value) == pytest.approx(nll, rel=1e-5)
    assert {each.test_set for each in scores.values()} == {"validation"}


def test_a_request_to_stop_is_heard_between_batches(validator: MaskedValidator) -> None:
    looks = iter([False, True])
    validator.should_stop = lambda: next(looks)
    with pytest.raises(Stopped):
        validator.validate(weights(validator, 1))
