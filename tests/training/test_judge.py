import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from crosshead.bundle import build_model, weights_of
from crosshead.data.batching import collate
from crosshead.evaluation import bleu
from crosshead.pipelines import Translator
from crosshead.training.corpus import Stopped
from crosshead.training.judge import GREEDY
from crosshead.training.judge import TranslationJudge as Judge
from crosshead.training.recipe import compose
from crosshead.training.tasks import read_corpus
from crosshead.training.updater import batch_loss

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


def weights(judge: Judge, seed: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    config = judge.bundle.config
    return weights_of(build_model(config.model, config.source_vocabulary, config.target_vocabulary))


def test_the_loss_is_the_mean_over_the_tokens_of_all_batches(judge: Judge) -> None:
    found = judge.validate(weights(judge, 1))
    examples = judge.corpus.valid_examples
    assert len(examples) > 1  # and a batch holds 8 tokens, so there are several batches
    whole = collate(examples, list(range(len(examples))), judge.bundle.model.config.start_token)
    with torch.inference_mode():
        sums = batch_loss(judge.bundle.model, whole, 0.2)
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
    found, scores = judge.validate(chosen), judge.scores(chosen)
    valid, translator = judge.corpus.valid, Translator(judge.bundle_of(chosen))
    for decode, value in ((GREEDY, found.others["bleu"]), (judge.recipe.decode, scores[0].value)):
        best = translator.translate(valid.source, decode=decode)
        assert bleu([each[0].text for each in best], valid.target) == pytest.approx(value)
    assert [(score.metric, score.test_set) for score in scores] == [
        ("BLEU", "validation"), ("chrF2", "validation"),
    ]  # fmt: skip
    assert all("version" in score.signature for score in scores)


@pytest.mark.parametrize("judges", [Judge.validate, Judge.scores])
def test_whoever_asks_for_the_end_does_not_wait_for_all_batches(
    judges: Callable[..., object], judge: Judge
) -> None:
    looks = iter([False, True])
    judge.should_stop = lambda: next(looks)
    with pytest.raises(Stopped):
        judges(judge, weights(judge, 1))


def test_the_bundle_is_that_of_the_recipe(judge: Judge) -> None:
    chosen = weights(judge, 1)
    bundle = judge.bundle_of(chosen)
    assert all(torch.equal(chosen[name], each) for name, each in weights_of(bundle.model).items())
    assert not bundle.model.training
    config = bundle.config
    assert (config.longest_source, config.decode) == (5, judge.recipe.decode)
    assert config.source_vocabulary == judge.corpus.source_tokenizer.vocab_size
