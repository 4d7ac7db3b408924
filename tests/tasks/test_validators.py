import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from crosshead.tasks.validators import GREEDY, TextJudge
from crosshead.tasks.validators import TranslationJudge as Judge

from crosshead.bundle.weights import weights_of
from crosshead.data.batching import collate
from crosshead.evaluation import bleu
from crosshead.models.registry import build_model
from crosshead.pipelines.translator import Translator
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.recipes import compose
from crosshead.tasks.registry import TASKS, read_corpus
from crosshead.tasks.text_corpus import read_text
from crosshead.tasks.token_loss import token_loss
from crosshead.vocabulary import EOS, UNK

CPU = torch.device("cpu")


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
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
    return Judge(recipe, read_corpus(recipe, None, None), 5, CPU)


def weights(judge: Judge | TextJudge, seed: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    config = judge.bundle.config
    return weights_of(build_model(config.model, config.source_vocabulary, config.target_vocabulary))


def test_the_loss_is_the_mean_over_the_tokens_of_all_batches(judge: Judge) -> None:
    found = judge.validate(weights(judge, 1))
    examples = judge.corpus.valid_examples
    assert len(examples) > 1  # and a batch holds 8 tokens, so there are several batches
    whole = collate(examples, list(range(len(examples))), judge.bundle.model.config.start_token)
    with torch.inference_mode():
        sums = token_loss(judge.bundle.model, whole, 0.2)
    assert found.loss == pytest.approx(float(sums.loss) / sums.count, rel=1e-5)
    assert found.nll == pytest.approx(float(sums.nll) / sums.count, rel=1e-5)
    assert 0 < found.nll < 3 * math.log(judge.bundle.config.target_vocabulary)


def test_it_judges_the_weights_it_is_given(judge: Judge) -> None:
    first, other = weights(judge, 1), weights(judge, 2)
    found = judge.validate(first)
    assert judge.validate(other) != found
    assert judge.validate(first) == found  # no dropout, nothing of the others left


def test_the_bleu_on_the_way_is_greedy_and_that_of_the_end_the_recipes(judge: Judge) -> None:
    chosen = weights(judge, 1)
    found, scores = judge.validate(chosen), judge.findings(chosen).scores
    valid, translator = judge.corpus.valid, Translator(judge.bundle_of(chosen))
    for decode, value in ((GREEDY, found.others["bleu"]), (judge.recipe.decode, scores[0].value)):
        best = translator.translate(valid.source, decode=decode)
        assert bleu([each[0].text for each in best], valid.target) == pytest.approx(value)
    assert [(score.metric, score.test_set) for score in scores] == [
        ("BLEU", "validation"), ("chrF2", "validation"),
    ]  # fmt: skip
    assert all("version" in score.signature for score in scores)


@pytest.mark.parametrize("judges", [Judge.validate, Judge.findings])
def test_whoever_asks_for_the_end_does_not_wait_for_all_batches(
    judges: Callable[..., object], judge: Judge
) -> None:
    looks = iter([False, True])
    judge.should_stop = lambda: next(looks)
    with pytest.raises(Stopped):
        judges(judge, weights(judge, 1))


def test_samples_of_translations_are_those_that_are_scored(judge: Judge) -> None:
    chosen = weights(judge, 1)
    found, valid = judge.findings(chosen), judge.corpus.valid
    translator = Translator(judge.bundle_of(chosen))
    best = translator.translate(valid.source, decode=judge.recipe.decode)
    made = dict(zip(valid.source, (each[0].text for each in best), strict=True))
    assert 1 <= len(found.samples) <= 3
    for sample in found.samples:
        assert sample.wanted == sample.given.upper()
        assert sample.made == made[sample.given]
    assert any("BLEU" in fault for fault in found.faults)  # nothing was learned
    assert judge.validations_to_score == 2


def test_the_bundle_is_that_of_the_recipe(judge: Judge) -> None:
    chosen = weights(judge, 1)
    bundle = judge.bundle_of(chosen)
    assert all(torch.equal(chosen[name], each) for name, each in weights_of(bundle.model).items())
    assert not bundle.model.training
    config = bundle.config
    assert (config.longest_source, config.decode) == (5, judge.recipe.decode)
    assert config.source_vocabulary == judge.corpus.source_tokenizer.vocab_size


CONTEXT = 16
WRITTEN = "".join(f"{a}{b} and {b}{a}\n" for a in "abcdef" for b in "uvwxyz")
UNSEEN = "au Zebra\u2603 and\n\nQQ ua"


def text_judge(tmp_path: Path, valid: str, kind: str, *assignments: str) -> TextJudge:
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
    return TextJudge(recipe, corpus, corpus.reach, CPU)


@pytest.mark.parametrize("valid", [WRITTEN[:200], UNSEEN], ids=["seen", "unseen"])
@pytest.mark.parametrize("kind", ["characters", "words", "bytes", "bpe"])
def test_a_text_is_judged_on_the_way_as_at_the_end(tmp_path: Path, kind: str, valid: str) -> None:
    """In the same windows, and by the characters that it has."""
    more = ["tokenizer.vocab_size=290"] if kind == "bpe" else []
    judge = text_judge(tmp_path, valid, kind, *more)
    chosen = weights(judge, 1)
    found, scores = judge.validate(chosen), judge.findings(chosen).scores
    rate, bits = scores
    assert [each.test_set for each in scores] == ["validation", "validation"]
    assert (rate.metric, bits.metric) == ("perplexity", "bits per character")
    assert math.log(rate.value) == pytest.approx(found.nll, rel=1e-5)
    assert bits.value == pytest.approx(found.others["bits_per_character"], rel=1e-5)
    stream = judge.corpus.valid
    unknown = stream.ids[1:].tolist().count(UNK)
    assert (unknown > 0) == (valid == UNSEEN and kind in ("characters", "words"))
    assert f"|unknown:{unknown}|" in bits.signature
    text = valid if valid.endswith("\n") else valid + "\n"
    first = 2 if kind in ("words", "bpe") else 1  # `au` is a piece of both
    assert stream.characters == len(text) - first
    nats = found.nll * (len(stream) - 1)
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
    judge = TASKS[recipe.model.task].judge(recipe, corpus, corpus.reach, CPU)
    found = judge.findings(weights(judge, 1))
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
    assert "frequent" in fault


def test_the_loss_of_a_text_is_the_mean_over_all_its_tokens(tmp_path: Path) -> None:
    judge = text_judge(tmp_path, WRITTEN[:200], "characters")
    chosen = weights(judge, 1)
    found, ids = judge.validate(chosen), torch.from_numpy(judge.corpus.valid.ids).long()
    log_probs: list[torch.Tensor] = []
    with torch.inference_mode():
        for begin in range(0, len(ids) - 1, CONTEXT):
            window = ids[begin : begin + CONTEXT + 1]
            logits = judge.bundle.model(window[None, :-1])[0]
            log_probs += logits.log_softmax(-1)[range(len(window) - 1), window[1:]]
    assert len(log_probs) == len(ids) - 1
    assert EOS in ids
    assert found.loss == found.nll == pytest.approx(-float(torch.stack(log_probs).mean()), rel=1e-5)
    assert judge.validate(weights(judge, 2)) != found
    assert judge.validate(chosen) == found  # no dropout, nothing of the others left


def test_a_model_with_a_memory_is_judged_at_the_end_as_it_reads_on(tmp_path: Path) -> None:
    memory = ("architecture=transformer-xl", "segment=8", "memory=8", "label_smoothing=0.1")
    plain = text_judge(tmp_path, WRITTEN[:200], "characters")
    assert plain.how() == f"windows of {CONTEXT} tokens"
    judge = text_judge(tmp_path, WRITTEN[:200], "characters", *memory)
    assert judge.how() == "read on, with its memory"
    bits = judge.findings(weights(judge, 1)).scores[1]
    assert "|memory:8|" in bits.signature
    found = judge.validate(weights(judge, 1))
    assert bits.value == pytest.approx(found.others["bits_per_character"], rel=1e-5)
    assert found.loss == found.nll
    assert "|stride:16|" in plain.findings(weights(plain, 1)).scores[1].signature


@pytest.mark.parametrize("architecture", ["language", "transformer-xl"])
@pytest.mark.parametrize("judges", [TextJudge.validate, TextJudge.findings])
def test_whoever_asks_for_the_end_does_not_wait_for_all_of_a_text(
    judges: Callable[..., object], architecture: str, tmp_path: Path
) -> None:
    settings = [f"architecture={architecture}", "decode.batch_tokens=32"]
    if architecture == "transformer-xl":
        settings += ["segment=8", "memory=8"]
    judge = text_judge(tmp_path, WRITTEN, "characters", *settings)
    looks = iter([False, True])
    judge.should_stop = lambda: next(looks)
    with pytest.raises(Stopped):
        judges(judge, weights(judge, 1))
