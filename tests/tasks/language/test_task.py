import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from crosshead.tasks.corpus import Stopped
from crosshead.tasks.language.task import BITS, LanguageTask, LanguageValidator
from crosshead.vocabulary import EOS, UNK
from tests.tasks.validators import (
    CONTEXT,
    UNSEEN,
    WRITTEN,
    text_validator,
    weights,
)


@pytest.mark.parametrize("valid", [WRITTEN[:200], UNSEEN], ids=["seen", "unseen"])
@pytest.mark.parametrize("kind", ["characters", "words", "bytes", "bpe"])
def test_a_text_is_judged_on_the_way_as_at_the_end(tmp_path: Path, kind: str, valid: str) -> None:
    """In the same windows, and by the characters that it has."""
    more = ["tokenizer.vocab_size=290"] if kind == "bpe" else []
    validator = text_validator(tmp_path, valid, kind, *more)
    chosen = weights(validator, 1)
    found, scores = validator.validate(chosen), validator.findings(chosen).scores
    rate, bits = scores
    assert [each.test_set for each in scores] == ["validation", "validation"]
    assert (rate.metric, bits.metric) == ("perplexity", "bits per character")
    assert math.log(rate.value) == pytest.approx(found.values["nll"], rel=1e-5)
    assert bits.value == pytest.approx(found.values["bits_per_character"], rel=1e-5)
    stream = validator.corpus.valid
    unknown = stream.ids[1:].tolist().count(UNK)
    assert (unknown > 0) == (valid == UNSEEN and kind in ("characters", "words"))
    assert f"|unknown:{unknown}|" in bits.signature
    text = valid if valid.endswith("\n") else valid + "\n"
    first = 2 if kind in ("words", "bpe") else 1  # `au` is a piece of both
    assert stream.characters == len(text) - first
    nats = found.values["nll"] * (len(stream) - 1)
    assert bits.value == pytest.approx(nats / math.log(2) / (len(text) - first), rel=1e-5)


def test_the_loss_of_a_text_is_the_mean_over_all_its_tokens(tmp_path: Path) -> None:
    validator = text_validator(tmp_path, WRITTEN[:200], "characters")
    chosen = weights(validator, 1)
    found, ids = validator.validate(chosen), torch.from_numpy(validator.corpus.valid.ids).long()
    log_probs: list[torch.Tensor] = []
    with torch.inference_mode():
        for begin in range(0, len(ids) - 1, CONTEXT):
            window = ids[begin : begin + CONTEXT + 1]
            logits = validator.bundle.model(window[None, :-1])[0]
            log_probs += logits.log_softmax(-1)[range(len(window) - 1), window[1:]]
    assert len(log_probs) == len(ids) - 1
    assert EOS in ids
    assert (
        found.values["loss"]
        == found.values["nll"]
        == pytest.approx(-float(torch.stack(log_probs).mean()), rel=1e-5)
    )
    assert validator.validate(weights(validator, 2)) != found
    assert validator.validate(chosen) == found  # no dropout, nothing of the others left


def test_a_model_with_a_memory_is_judged_at_the_end_as_it_reads_on(tmp_path: Path) -> None:
    memory = ("architecture=transformer-xl", "segment=8", "memory=8", "label_smoothing=0.1")
    plain = text_validator(tmp_path, WRITTEN[:200], "characters")
    assert plain.search_description() == f"windows of {CONTEXT} tokens"
    validator = text_validator(tmp_path, WRITTEN[:200], "characters", *memory)
    assert validator.search_description() == "one pass, with memory"
    bits = validator.findings(weights(validator, 1)).scores[1]
    assert "|memory:8|" in bits.signature
    found = validator.validate(weights(validator, 1))
    assert bits.value == pytest.approx(found.values["bits_per_character"], rel=1e-5)
    assert found.values["loss"] == found.values["nll"]
    assert "|stride:16|" in plain.findings(weights(plain, 1)).scores[1].signature


@pytest.mark.parametrize("architecture", ["language", "transformer-xl"])
@pytest.mark.parametrize("validates", [LanguageValidator.validate, LanguageValidator.findings])
def test_whoever_asks_for_the_end_does_not_wait_for_all_of_a_text(
    validates: Callable[..., object], architecture: str, tmp_path: Path
) -> None:
    settings = [f"architecture={architecture}", "decode.batch_tokens=32"]
    if architecture == "transformer-xl":
        settings += ["segment=8", "memory=8"]
    validator = text_validator(tmp_path, WRITTEN, "characters", *settings)
    looks = iter([False, True])
    validator.should_stop = lambda: next(looks)
    with pytest.raises(Stopped):
        validates(validator, weights(validator, 1))


def test_text_is_for_a_language_model_unless_the_recipe_names_another() -> None:
    assert BITS.name in [metric.name for metric in LanguageTask.metrics]
    assert not BITS.higher_is_better
    assert LanguageTask().recognizes({"text": ["a"]}) and not LanguageTask().recognizes(
        {"text": []}
    )
