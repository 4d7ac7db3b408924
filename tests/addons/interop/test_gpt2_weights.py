"""Every weight of a language model has its place in GPT-2, and comes back."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from crosshead.addons.interop.gpt2_weights import OUTPUT, is_tied, places, to_gpt2
from crosshead.addons.interop.weights import all_parameters, from_foreign
from crosshead.models.language import LanguageConfig, TransformerLanguageModel

SHAPE = {"layers": 2, "d_model": 8, "d_ff": 12, "heads": 2, "positions": "learned"}


@pytest.mark.parametrize("tie", [False, True])
def test_the_names_and_shapes_are_those_of_transformers(tie: bool) -> None:
    config = LanguageConfig(**SHAPE, max_length=6, tie=tie, scale_embeddings=False)
    model = TransformerLanguageModel(config, 9)
    found = to_gpt2(config, all_parameters(model), torch.zeros(6, 8), range(9))
    theirs = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=9, n_positions=6, n_embd=8, n_layer=2, n_head=2, n_inner=12,
            tie_word_embeddings=tie, bos_token_id=2, eos_token_id=2,
        )
    )  # fmt: skip
    expected = {name: each.shape for name, each in theirs.named_parameters()}
    assert {name: each.shape for name, each in found.items()} == expected
    assert is_tied(config) == tie and (OUTPUT in found) != tie


def test_weights_come_back_in_other_rows() -> None:
    config = LanguageConfig(**SHAPE, max_length=6, scale_embeddings=False)
    model = TransformerLanguageModel(config, 9)
    weights, rows = all_parameters(model), [None, 0, 6, None, 1, 2, 3, 4, 5]
    table = weights["embeddings.positions.table"]
    back = from_foreign(places(config, rows), to_gpt2(config, weights, table, rows), weights)
    assert back.keys() == weights.keys()
    for name, weight in weights.items():
        kept = [1, 2, *range(4, 9)] if len(weight) == 9 else list(range(len(weight)))
        assert torch.equal(back[name][kept], weight[kept]), name
    assert back["projection.weight"][[0, 3]].eq(0).all()


def test_the_factor_of_embeddings_is_multiplied_in() -> None:
    config = LanguageConfig(**SHAPE, tie=True)
    weights = all_parameters(TransformerLanguageModel(config, 9))
    found = to_gpt2(config, weights, torch.zeros(6, 8), range(9))
    assert not is_tied(config)
    torch.testing.assert_close(found["transformer.wte.weight"], found[OUTPUT] * 8**0.5)
