import math

import pytest
import torch
from torch import nn

from crosshead.attention.positions import SinusoidalPositions, sinusoidal
from crosshead.errors import UserError
from crosshead.layers.embeddings import (
    Embeddings,
    LearnedPositions,
    embedding_weight,
)
from crosshead.vocabulary import CUT, PAD

TOKENS = torch.tensor([[5, 6, 7], [8, 5, PAD]])


@pytest.fixture
def weight() -> nn.Parameter:
    torch.manual_seed(0)
    return embedding_weight(20, 16)


def test_tokens_are_scaled_by_the_root_of_the_width_and_positions_added(
    weight: nn.Parameter,
) -> None:
    embeddings = Embeddings(weight, SinusoidalPositions(16, "interleaved"), dropout=0.0)
    expected = weight[TOKENS] * math.sqrt(16) + sinusoidal(3, 16)
    torch.testing.assert_close(embeddings(TOKENS), expected)


def test_start_is_the_position_of_the_first_token(weight: nn.Parameter) -> None:
    for positions in (SinusoidalPositions(16, "halves"), LearnedPositions(16, 30)):
        embeddings = Embeddings(weight, positions, dropout=0.0)
        torch.testing.assert_close(embeddings(TOKENS[:, 1:], start=1), embeddings(TOKENS)[:, 1:])


def test_dropout_acts_on_the_sum(weight: nn.Parameter) -> None:
    embeddings = Embeddings(weight, SinusoidalPositions(16, "interleaved"), dropout=0.5)
    tokens = torch.full((8, 20), 5)
    thinned = embeddings(tokens)
    whole = embeddings.eval()(tokens)
    kept = thinned != 0
    assert 0.4 < kept.float().mean() < 0.6
    torch.testing.assert_close(thinned, 2 * whole * kept)


def test_padding_is_zero_and_is_not_trained_by_being_read(weight: nn.Parameter) -> None:
    embeddings = Embeddings(weight, SinusoidalPositions(16, "interleaved"), dropout=0.0)
    torch.testing.assert_close(embeddings(TOKENS)[1, 2], sinusoidal(3, 16)[2])
    embeddings(TOKENS).square().sum().backward()
    assert (weight.grad[PAD] == 0).all()
    assert (weight.grad[5] != 0).any()


def test_initial_variance(weight: nn.Parameter) -> None:
    """N(0, 1/d_model): unit variance once scaled, and a table of positions drawn alike."""
    big = embedding_weight(2000, 64)
    assert (big[PAD] == 0).all()
    assert 0.97 < big[1:].var() * 64 < 1.03
    assert 0.97 < LearnedPositions(64, 2000).table.var() * 64 < 1.03


def test_sinusoids_have_no_end() -> None:
    positions = SinusoidalPositions(16, "halves")
    for start, length in [(0, 10), (60, 10), (1000, 3), (0, 5)]:
        expected = sinusoidal(start + length, 16, pairing="halves")[start:]
        torch.testing.assert_close(positions(start, length), expected)


def test_sinusoids_keep_their_precision_and_are_not_saved() -> None:
    positions = SinusoidalPositions(16, "halves").double()
    assert positions(0, 500).dtype == torch.float64
    assert positions.state_dict() == {}


def test_a_table_that_grew_in_inference_serves_training(weight: nn.Parameter) -> None:
    embeddings = Embeddings(weight, SinusoidalPositions(16, "interleaved"), dropout=0.1)
    long = torch.full((1, 300), 5)
    with torch.inference_mode():
        embeddings(long)
    embeddings(long).sum().backward()
    assert (weight.grad[5] != 0).all()


def test_learned_positions_end_and_the_error_names_both_lengths() -> None:
    positions = LearnedPositions(4, max_length=10)
    assert positions(7, 3).shape == (3, 4)
    with pytest.raises(UserError, match=r"11 tokens .* 10 learned positions .*max_length"):
        positions(8, 3)


def test_a_token_that_is_cut_is_a_zero_vector_at_its_position() -> None:
    weight = embedding_weight(9, 4)
    positions = LearnedPositions(4, 5)
    embeddings = Embeddings(weight, positions, dropout=0.0).train()
    tokens = torch.tensor([[5, CUT, 7], [CUT, 8, PAD]])
    found = embeddings(tokens)
    expected = embeddings(tokens.masked_fill(tokens == CUT, 5))
    kept = tokens != CUT
    torch.testing.assert_close(found[kept], expected[kept])
    torch.testing.assert_close(found[0, 1], positions.table[1])
    torch.testing.assert_close(found[1, 0], positions.table[0])


def test_a_token_that_is_cut_passes_no_gradient_to_its_row() -> None:
    weight = embedding_weight(9, 4)
    embeddings = Embeddings(weight, None, dropout=0.0).train()
    embeddings(torch.tensor([[5, CUT]])).sum().backward()
    assert weight.grad is not None
    assert weight.grad.any(dim=1).nonzero().flatten().tolist() == [5]


def test_without_cut_tokens_training_is_evaluation() -> None:
    embeddings = Embeddings(embedding_weight(9, 4), None, dropout=0.0)
    tokens = torch.tensor([[5, 6, PAD]])
    assert torch.equal(embeddings.train()(tokens), embeddings.eval()(tokens))
