import math

import pytest
import torch

from crosshead.decoding.beams import advance, first_beams, join_beams
from crosshead.decoding.hypotheses import Finished, Specials
from crosshead.decoding.settings import BeamRules, length_penalty
from tests.decoding.toy import EOS, PAD, START

SPECIALS = Specials(start=START, eos=EOS, forbidden=(START, PAD))
RULES = BeamRules(beam=2, alpha=0.6)


def stepped(number: int, limit: int, steps: list[int]):  # type: ignore[no-untyped-def]
    """The beams of one sentence after steps in which one token is sure, another one hardly."""
    beams = first_beams(
        [number], torch.tensor([limit]), [1], torch.empty(1, 0, dtype=torch.bool), RULES
    )
    found: Finished = {}
    for token in steps:
        rows = beams.log_probs.numel()
        values = torch.tensor([[-0.1, -5.0, -9.0]]).repeat(rows, 1)
        tokens = torch.tensor([[token, token + 1, EOS]]).repeat(rows, 1)
        beams, _, _ = advance(beams, values, tokens, SPECIALS, RULES, found)
    return beams


def test_joined_sentences_keep_their_own_lengths() -> None:
    joined = join_beams(stepped(7, 9, [3, 3, 3]), stepped(8, 2, [5]))
    assert joined.sentences.tolist() == [7, 8]
    assert joined.lengths.tolist() == [3, 1]
    assert joined.tokens.tolist()[0] == [3, 3, 3]
    assert [row[-1:] for row in joined.tokens.tolist()[2:]] == [[5], [6]]


def test_each_sentence_ends_at_its_own_limit_with_its_own_penalty() -> None:
    joined = join_beams(stepped(7, 9, [3, 3, 3]), stepped(8, 2, [5]))
    found: Finished = {}
    values = torch.tensor([[-0.1, -5.0, -9.0]]).repeat(4, 1)
    tokens = torch.tensor([[4, 3, EOS]]).repeat(4, 1)
    beams, rows, done = advance(joined, values, tokens, SPECIALS, RULES, found)
    assert (done, beams.sentences.tolist(), len(rows)) == ([8], [7], 2)
    [hypothesis] = found[8]
    assert (hypothesis.tokens, hypothesis.finished) == ([5, 4], False)
    assert math.isclose(hypothesis.score, -0.2 / length_penalty(2, 0.6), rel_tol=1e-6)


def test_finished_hypotheses_count_by_their_scores() -> None:
    """The rules that end a search compare the scores that the hypotheses have."""
    found: Finished = {}
    values = torch.tensor([[-0.1, -0.2]]).repeat(2, 1)
    tokens = torch.tensor([[4, EOS]]).repeat(2, 1)
    beams, _, done = advance(stepped(7, 9, [3, 3, 3]), values, tokens, SPECIALS, RULES, found)
    [hypothesis] = found[7]
    assert not done and beams.best[0, 0].item() == pytest.approx(hypothesis.score)
