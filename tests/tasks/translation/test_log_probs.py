"""Scores of given translations equal what search and model say."""

import math

import pytest
import torch

from crosshead.errors import DataError
from crosshead.tasks.translation.translator import Translator


def test_pairs_that_are_too_long_are_found_before_they_are_scored(translator: Translator) -> None:
    sources, targets = ["One.", "x" * 9000, "Two."], ["Eins.", "Zwei.", "y" * 9000]
    refused = translator.refusals(sources, targets, first=10)
    assert list(refused) == [1, 2]
    assert "pair 12: its source has 9,00" in refused[1] and "pair 13: its target" in refused[2]
    with pytest.raises(DataError, match=r"pair 2: its source has .*; split both sides"):
        translator.score(sources, targets)


def test_scoring_agrees_with_searching(translator: Translator) -> None:
    lines = ["Seven eight.", "One.", "Ten nine eight seven six."]
    found = [each[0] for each in translator.translate(lines)]
    scored = translator.score(lines, [each.text for each in found])
    for given_one, searched in zip(scored, found, strict=True):
        assert given_one.pieces == searched.pieces
        assert given_one.piece_log_probs == pytest.approx(searched.piece_log_probs, abs=1e-5)
        assert given_one.log_prob == pytest.approx(math.fsum(given_one.piece_log_probs))


def test_scoring_in_batches_is_scoring_one_by_one(
    random_translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = ["abc", "", "a longer source", "x"]
    targets = ["target", "t", "", "four targets"]
    together = random_translator.score(sources, targets)
    assert [len(each.pieces) for each in together] == [7, 2, 1, 13]
    monkeypatch.setattr("crosshead.tasks.translation.log_probs.SCORED_LOGITS", 1)
    for alone, found in zip(random_translator.score(sources, targets), together, strict=True):
        assert alone.piece_log_probs == pytest.approx(found.piece_log_probs, abs=1e-5)
    assert random_translator.score([], []) == []


def test_scoring_sees_no_white_space_around_lines(random_translator: Translator) -> None:
    [bare] = random_translator.score(["abc"], ["xyz"])
    [spaced] = random_translator.score(["\t abc\u3000"], ["  xyz \r\n"])
    assert spaced == bare


def test_scores_are_the_logarithms_of_the_model_s_probabilities(
    random_translator: Translator,
) -> None:
    tokenizer = random_translator.bundle.target_tokenizer
    source, [first] = torch.tensor([[*tokenizer.encode("abc"), 2]]), tokenizer.encode("z")
    with torch.inference_mode():
        probabilities = random_translator.model(source, torch.tensor([[1]]))[0, 0].softmax(-1)
    [scored] = random_translator.score(["abc"], ["z"])
    assert math.exp(scored.piece_log_probs[0]) == pytest.approx(float(probabilities[first]))


def test_what_cannot_be_scored_is_one_line(random_translator: Translator) -> None:
    with pytest.raises(DataError, match="2 sources and 1 targets"):
        random_translator.score(["a", "b"], ["a"])
    with pytest.raises(
        DataError, match="pair 2: its target has 31 tokens, but the model takes at most 24"
    ):
        random_translator.score(["a", "b"], ["a", "c" * 30])
    with pytest.raises(DataError, match="pair 1026: its target has 31 tokens"):
        random_translator.score(["a", "b"], ["a", "c" * 30], first=1024)


def test_a_megabyte_is_not_scored(translator: Translator) -> None:
    with pytest.raises(
        DataError, match=r"pair 2: its target has [\d,]+ tokens, .* takes at most 4,096"
    ):
        translator.score(["One.", "One."], ["Eins.", "Eins. " * 2**18])
