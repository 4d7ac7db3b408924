import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, MarianConfig
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from transformers.models.marian import modeling_marian

from crosshead.attention.positions import (
    Pairing,
    Rate,
    Rotary,
    SinusoidalPositions,
    shift,
    sinusoidal,
)


def formula(rows: range, d_model: int) -> torch.Tensor:
    """Section 3.5 of Vaswani et al. 2017, entry by entry."""
    table = torch.zeros(len(rows), d_model, dtype=torch.float64)
    for index, row in enumerate(rows):
        for column in range(d_model):
            angle = row / 10000 ** ((column - column % 2) / d_model)
            table[index, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table.float()


@settings(max_examples=20)
@given(st.integers(1, 12), st.integers(1, 17), st.sampled_from([0, 1, 100, 5000]))
def test_interleaved_is_the_formula_of_the_paper(length: int, d_model: int, start: int) -> None:
    end = start + length
    torch.testing.assert_close(
        sinusoidal(end, d_model)[start:], formula(range(start, end), d_model)
    )


@pytest.mark.parametrize("d_model", [2, 7, 16])
def test_halves_are_those_of_marian_in_hugging_face(d_model: int) -> None:
    config = MarianConfig(d_model=d_model, max_position_embeddings=50)
    theirs = modeling_marian.MarianSinusoidalPositionalEmbedding(50, config.d_model)
    torch.testing.assert_close(sinusoidal(50, d_model, pairing="halves"), theirs.create_weight())


@pytest.mark.parametrize("d_model", [4, 16, 512])
def test_the_rate_of_marian_and_tensor2tensor(d_model: int) -> None:
    """Angles pos * exp(-i log(10000) / (d/2 - 1)): timescales from 1 to 10000, both included."""
    half = d_model // 2
    expected = torch.zeros(40, d_model, dtype=torch.float64)
    for position in range(40):
        for i in range(half):
            angle = position * math.exp(-i * math.log(10000) / (half - 1))
            expected[position, i], expected[position, half + i] = math.sin(angle), math.cos(angle)
    found = sinusoidal(40, d_model, pairing="halves", rate="tensor2tensor")
    torch.testing.assert_close(found, expected.float())
    assert (found - sinusoidal(40, d_model, pairing="halves")).abs().max() > 0.01


EVERY = [
    (pairing, rate) for pairing in ("interleaved", "halves") for rate in ("paper", "tensor2tensor")
]


@pytest.mark.parametrize(("pairing", "rate"), EVERY)
@pytest.mark.parametrize("k", [1, 37, -5])
def test_a_later_position_is_a_linear_map_of_an_earlier_one(
    pairing: Pairing, rate: Rate, k: int
) -> None:
    """One matrix for all positions, which is a rotation: the paper's reason for sinusoids."""
    table = sinusoidal(200, 8, pairing=pairing, rate=rate).double()
    matrix = shift(k, 8, pairing=pairing, rate=rate)
    earlier, later = (table[:-k], table[k:]) if k > 0 else (table[-k:], table[:k])
    torch.testing.assert_close(later, earlier @ matrix.T, rtol=0, atol=1e-6)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(8, dtype=torch.float64))
    two, back = (shift(n, 8, pairing=pairing, rate=rate) for n in (2 * k, -k))
    torch.testing.assert_close(matrix @ matrix, two)
    torch.testing.assert_close(two @ back, matrix)


def test_a_lone_sine_cannot_be_shifted() -> None:
    with pytest.raises(ValueError, match="d_model 7 is odd"):
        shift(1, 7)


def test_late_positions_are_exact() -> None:
    """Angles in float32 would be wrong in the fourth decimal a hundred thousand positions out."""
    row = sinusoidal(100_004, 2)[-1]
    torch.testing.assert_close(
        row, torch.tensor([math.sin(100_003), math.cos(100_003)]), rtol=0, atol=1e-7
    )


# Rotary positions


def heads(length: int, width: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    torch.manual_seed(length)
    return torch.randn(2, 3, length, width, dtype=dtype)


def test_halves_turn_as_in_llama_and_gpt_neox() -> None:
    query, key = heads(9, 8, torch.float32), heads(9, 8, torch.float32)
    config = LlamaConfig(hidden_size=24, num_attention_heads=3, head_dim=8)
    cosine, sine = modeling_llama.LlamaRotaryEmbedding(config)(query, torch.arange(9)[None])
    rotary = Rotary(8)
    for module in (modeling_llama, modeling_gpt_neox):
        turned = module.apply_rotary_pos_emb(query, key, cosine, sine)
        torch.testing.assert_close(rotary(query, 0), turned[0])
        torch.testing.assert_close(rotary(key, 0), turned[1])


def test_products_depend_on_the_distance_alone() -> None:
    """Su et al. 2021, Eq. 11; and turning changes no length."""
    rotary = Rotary(8).double()
    query, key = heads(1, 8), heads(1, 8).flip(1)
    here = (rotary(query, 12) * rotary(key, 7)).sum(-1)
    there = (rotary(query, 112) * rotary(key, 107)).sum(-1)
    torch.testing.assert_close(here, there, rtol=0, atol=1e-12)
    assert (here - (rotary(query, 13) * rotary(key, 7)).sum(-1)).abs().min() > 1e-3
    torch.testing.assert_close(rotary(query, 12).norm(dim=-1), query.norm(dim=-1))


def test_turned_in_parts_is_turned_at_once() -> None:
    x, rotary = heads(9, 6), Rotary(6).double()
    parts = torch.cat((rotary(x[:, :, :4], 0), rotary(x[:, :, 4:], 4)), dim=2)
    torch.testing.assert_close(parts, rotary(x, 0))


def test_a_table_that_grew_in_inference_serves_training() -> None:
    x, rotary, fresh = heads(40, 6), Rotary(6).double(), Rotary(6).double()
    with torch.inference_mode():
        rotary(x, 0)
    gradients = []
    for module in (rotary, fresh):
        leaf = x.clone().requires_grad_()
        module(leaf, 0).square().mul(x).sum().backward()
        gradients.append(leaf.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_table_keeps_no_rounding_of_a_former_type(dtype: torch.dtype) -> None:
    positions, fresh = SinusoidalPositions(8, "halves"), SinusoidalPositions(8, "halves").double()
    assert torch.equal(positions.to(dtype)(3, 20), fresh(3, 20).float().to(dtype))
    assert positions(3, 20).dtype == dtype
    assert torch.equal(positions.float()(3, 20), fresh(3, 20).float())
    assert torch.equal(positions.double()(3, 20), fresh(3, 20))


def test_pairs_need_an_even_width() -> None:
    with pytest.raises(ValueError, match="d_key 5 is odd"):
        Rotary(5)
