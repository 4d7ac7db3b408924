import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from crosshead.bundle.weights import weights_of
from crosshead.data.batching import collate
from crosshead.evaluation import bleu
from crosshead.models.registry import build_model
from crosshead.pipelines.translator import Translator
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.language import LanguageValidator
from crosshead.tasks.recipes import compose
from crosshead.tasks.registry import task_of
from crosshead.tasks.text_corpus import read_text
from crosshead.tasks.token_loss import Smoothing, token_loss
from crosshead.tasks.translation import GREEDY, TranslationValidator
from crosshead.vocabulary import EOS, UNK
from tests.tasks.reading import read_corpus

CPU = torch.device("cpu")


def validator_of(recipe: Any, corpus: Any, reach: int) -> Any:
    return task_of(recipe).validates(recipe, corpus, reach, CPU)


@pytest.fixture
def validator(tmp_path: Path) -> TranslationValidator:
    lines = [" ".join("abcde"[: 1 + n % 5]) for n in range(40)]
    (tmp_path / "en").write_text("\n".join(lines) + "\n")
    (tmp_path / "de").write_text("\n".join(line.upper() for line in lines) + "\n")
    recipe = compose(
        flags={"data": {"source": str(tmp_path / "en"), "target": str(tmp_path / "de")}},
        assignments=[
            "tokenizer.kind=words", "encoder_layers=1", "decoder_layers=1", "d_model=16", "d_ff=16",
            "heads=2", "model.dropout=0.5", "train.batch_tokens=8", "data.max_length=7",
            "decode.beam=2", "decode.max_extra=3", "label_smoothing=0.2",
        ],
    )  # fmt: skip
    return validator_of(recipe, read_corpus(recipe, None, None), 5)


def weights(
    validator: TranslationValidator | LanguageValidator, seed: int
) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    config = validator.bundle.config
    return weights_of(build_model(config.model, config.source_vocabulary, config.target_vocabulary))


def test_the_loss_is_the_mean_over_the_tokens_of_all_batches(
    validator: TranslationValidator,
) -> None:
    found = validator.validate(weights(validator, 1))
    examples = validator.corpus.valid_examples
    assert len(examples) > 1  # and a batch holds 8 tokens, so there are several batches
    whole = collate(examples, list(range(len(examples))), validator.bundle.model.config.start_token)
    with torch.inference_mode():
        sums = token_loss(validator.bundle.model, whole, Smoothing(0.2))
    assert found.values["loss"] == pytest.approx(float(sums.sums["loss"]) / sums.count, rel=1e-5)
    assert found.values["nll"] == pytest.approx(float(sums.sums["nll"]) / sums.count, rel=1e-5)
    assert 0 < found.values["nll"] < 3 * math.log(validator.bundle.config.target_vocabulary)


def test_it_judges_the_weights_it_is_given(validator: TranslationValidator) -> None:
    first, other = weights(validator, 1), weights(validator, 2)
    found = validator.validate(first)
    assert validator.validate(other) != found
    assert validator.validate(first) == found  # no dropout, nothing of the others left


def test_the_bleu_on_the_way_is_greedy_and_that_of_the_end_the_recipes(
    validator: TranslationValidator,
) -> None:
    chosen = weights(validator, 1)
    found, scores = validator.validate(chosen), validator.findings(chosen).scores
    valid, translator = validator.corpus.valid, Translator(validator.bundle_of(chosen))
    for decode, value in (
        (GREEDY, found.values["bleu"]),
        (validator.recipe.decode, scores[0].value),
    ):
        best = translator.translate(valid.source, decode=decode)
        assert bleu([each[0].text for each in best], valid.target) == pytest.approx(value)
    assert [(score.metric, score.test_set) for score in scores] == [
        ("BLEU", "validation"), ("chrF2", "validation"),
    ]  # fmt: skip
    assert all("version" in score.signature for score in scores)


@pytest.mark.parametrize(
    "validates", [TranslationValidator.validate, TranslationValidator.findings]
)
def test_whoever_asks_for_the_end_does_not_wait_for_all_batches(
    validates: Callable[..., object], validator: TranslationValidator
) -> None:
    looks = iter([False, True])
    validator.should_stop = lambda: next(looks)
    with pytest.raises(Stopped):
        validates(validator, weights(validator, 1))


def test_samples_of_translations_are_those_that_are_scored(validator: TranslationValidator) -> None:
    chosen = weights(validator, 1)
    found, valid = validator.findings(chosen), validator.corpus.valid
    translator = Translator(validator.bundle_of(chosen))
    best = translator.translate(valid.source, decode=validator.recipe.decode)
    made = dict(zip(valid.source, (each[0].text for each in best), strict=True))
    assert 1 <= len(found.samples) <= 3
    for sample in found.samples:
        assert sample.wanted == sample.given.upper()
        assert sample.made == made[sample.given]
    assert any("BLEU" in fault for fault in found.faults)  # nothing was learned
    assert validator.validations_to_score == 2


def test_the_bundle_is_that_of_the_recipe(validator: TranslationValidator) -> None:
    chosen = weights(validator, 1)
    bundle = validator.bundle_of(chosen)
    assert all(torch.equal(chosen[name], each) for name, each in weights_of(bundle.model).items())
    assert not bundle.model.training
    config = bundle.config
    assert (config.longest_source, config.decode) == (5, validator.recipe.decode)
    assert config.source_vocabulary == validator.corpus.source_tokenizer.vocab_size


CONTEXT = 16
WRITTEN = "".join(f"{a}{b} and {b}{a}\n" for a in "abcdef" for b in "uvwxyz")
UNSEEN = "au Zebra\u2603 and\n\nQQ ua"


def text_validator(tmp_path: Path, valid: str, kind: str, *assignments: str) -> LanguageValidator:
    (tmp_path / "text").write_text(WRITTEN)
    (tmp_path / "valid").write_text(valid)
    data = {"text": [str(tmp_path / "text")], "valid_text": [str(tmp_path / "valid")]}
    recipe = compose(
        flags={"data": {**data, "context": CONTEXT}},
        assignments=[
            f"tokenizer.kind={kind}", "layers=1", "d_model=16", "d_ff=16", "heads=2",
            "model.dropout=0.5", "train.batch_tokens=32", *assignments,
        ],
    )  # fmt: skip
    corpus = read_text(recipe, None, None)
    return validator_of(recipe, corpus, corpus.reach)


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


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
@pytest.mark.parametrize("architecture", ["language", "encoder"])
def test_samples_of_text_stand_beside_the_text(
    tmp_path: Path, architecture: str, kind: str
) -> None:
    more = ["tokenizer.vocab_size=290"] if kind == "bpe" else []
    settings = [f"architecture={architecture}", f"tokenizer.kind={kind}", *more]
    (tmp_path / "text").write_text(WRITTEN.replace(" and ", " and then they said "))
    names = [str(tmp_path / "text")]
    recipe = compose(
        flags={"data": {"text": names, "valid_text": names, "context": 64}},
        assignments=["layers=1", "d_model=16", "d_ff=16", "heads=2", *settings],
    )
    corpus = read_corpus(recipe, None, None)
    validator = validator_of(recipe, corpus, corpus.reach)
    found = validator.findings(weights(validator, 1))
    text = " ".join(WRITTEN.replace(" and ", " and then they said ").split())
    assert found.samples
    for given, made, wanted in found.samples:
        assert " ".join(wanted.split()) in text
        if architecture == "encoder":
            assert given.count("[MASK]") == 1 and "[MASK]" not in made
            before, after = given.split("[MASK]")
            assert wanted.startswith(before) and wanted.endswith(after)
        else:
            assert " ".join(given.split()) in text
            assert made
    [fault] = found.faults  # nothing was learned
    assert "token frequencies" in fault


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
    assert plain.how() == f"windows of {CONTEXT} tokens"
    validator = text_validator(tmp_path, WRITTEN[:200], "characters", *memory)
    assert validator.how() == "one pass, with memory"
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
