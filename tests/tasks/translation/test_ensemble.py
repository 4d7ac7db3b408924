import math
from dataclasses import replace

import pytest

from crosshead.errors import BundleError, DataError
from crosshead.models.convolutional import ConvolutionalConfig
from crosshead.models.recurrent import RecurrentConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.translation.ensemble import EnsembleTranslator
from crosshead.tasks.translation.scores import evaluate
from crosshead.tasks.translation.translator import Translator
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from tests.tasks.translation.translators import untrained

SMALL = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8}
LINES = ["abc", "", "a line of its own", "x", "öäü 漢字"]


@pytest.fixture(scope="module")
def members() -> list[Translator]:
    """Untrained models of bytes, of three architectures, one with learned positions."""
    heads = {"d_ff": 8, "heads": 2}
    return [
        untrained(TransformerConfig(**SMALL, **heads)),
        untrained(RecurrentConfig(**SMALL)),
        untrained(ConvolutionalConfig(**SMALL)),
        untrained(TransformerConfig(**SMALL, **heads, positions="learned", max_length=24)),
    ]


def ensemble_of(members: list[Translator]) -> EnsembleTranslator:
    return EnsembleTranslator({f"m{n}": each.bundle for n, each in enumerate(members)})


def test_twice_the_same_translates_and_scores_like_the_model(members: list[Translator]) -> None:
    one, both = members[0], ensemble_of([members[0]] * 2)
    alone = one.translate(LINES, n_best=3)
    for left, right in zip(alone, both.translate(LINES, n_best=3), strict=True):
        assert [each.text for each in left] == [each.text for each in right]
        for each, other in zip(left, right, strict=True):
            assert other.score == pytest.approx(each.score, abs=1e-4)
    targets = ["cba", "z", "q", "", "w"]
    scores = [found.score(LINES, targets) for found in (one, both)]
    for each, other in zip(*scores, strict=True):
        assert other.pieces == each.pieces
        assert other.log_prob == pytest.approx(each.log_prob, abs=1e-4)


def test_a_score_is_the_logarithm_of_the_mean_probability(members: list[Translator]) -> None:
    sources, targets = ["abc", "x"], ["cb", "a line"]
    alone = [each.score(sources, targets) for each in members]
    for row, found in enumerate(ensemble_of(members).score(sources, targets)):
        columns = zip(*(scores[row].piece_log_probs for scores in alone), strict=True)
        means = [math.log(sum(map(math.exp, column)) / len(members)) for column in columns]
        assert found.piece_log_probs == pytest.approx(means, abs=1e-4)
        assert found.log_prob == pytest.approx(sum(means), abs=1e-4)


def test_a_line_does_not_depend_on_its_companions(members: list[Translator]) -> None:
    ensemble = ensemble_of(members)
    together = ensemble(LINES)
    assert [ensemble(line) for line in LINES] == together


def test_limits_are_those_of_the_most_limited_model(members: list[Translator]) -> None:
    assert members[0].most_positions == (None, None)
    ensemble = ensemble_of(members)
    assert ensemble.most_positions == members[3].most_positions == (24, 24)
    assert ensemble.max_source_length == 23
    with pytest.raises(DataError, match="pair 1: its source has 41 tokens, but the model takes at"):
        ensemble.score(["a" * 40], ["b"])
    short = replace(
        members[1].bundle,
        config=members[1].bundle.config.model_copy(update={"longest_source": 7}),
    )
    assert ensemble_of([members[0], Translator(short)]).bundle.config.longest_source == 7


def test_it_is_shown_and_evaluated_like_a_translator(members: list[Translator]) -> None:
    ensemble = ensemble_of(members[:2])
    shown = repr(ensemble)
    assert shown.startswith("<EnsembleTranslator: 2 models: transformer, 1+1 layers")
    assert "; recurrent, 1+1 LSTM layers" in shown and shown.endswith("; on cpu>")
    [score] = evaluate(ensemble, ["abc", "x"], ["a", "b"], ["chrf"])
    assert score.metric == "chrF2"


def test_other_tokenizers_are_refused_by_side(members: list[Translator]) -> None:
    first = members[0].bundle

    def refused(**changes: object) -> str:
        other = Translator(replace(first, **changes))
        with pytest.raises(BundleError) as caught:
            ensemble_of([members[0], other])
        return str(caught.value)

    letters = train_tokenizer(TokenizerConfig(kind="characters"), ["abc"])
    apart = first.config.model_copy(update={"joint_tokenizer": False})
    said = refused(target_tokenizer=letters, config=apart)
    assert said.startswith(
        "m1: its tokenizer differs from the tokenizer of m0, for target (characters with 7 pieces "
        "instead of bytes with 260 pieces); an ensemble needs models with the same tokenizers: "
    )
    tagged = train_tokenizer(TokenizerConfig(kind="bytes", special=["<a>"]), ["a"])
    said = refused(source_tokenizer=tagged, config=apart)
    assert "for source (bytes with 261 pieces instead of bytes with 260 pieces)" in said
    both = {"source_tokenizer": letters, "target_tokenizer": letters}
    assert "for both sides (characters with 7 pieces" in refused(**both)
    others = [
        replace(first, source_tokenizer=found, target_tokenizer=found)
        for found in (
            train_tokenizer(TokenizerConfig(kind="characters"), [text]) for text in ("ab", "ac")
        )
    ]
    with pytest.raises(BundleError, match="piece 5 is 'c' instead of 'b'"):
        ensemble_of([Translator(each) for each in others])


def test_other_start_tokens_are_refused(members: list[Translator]) -> None:
    marian = untrained(TransformerConfig(**SMALL, d_ff=8, heads=2, start="pad"))
    with pytest.raises(BundleError, match="m1: its targets start with token 0, but those of m0"):
        ensemble_of([members[0], marian])
