"""Tables of weight names: what goes to a toolkit comes back the same."""

import pytest
import torch
import transformers

from crosshead.addons.interop.weights import (
    ABSENT,
    BART,
    CTRANSLATE2,
    GPT2_OUTPUT,
    LOGITS_BIAS,
    MARIAN,
    Rows,
    Table,
    all_parameters,
    bart_places,
    from_foreign,
    from_rows,
    gpt2_places,
    is_tied,
    to_bart,
    to_foreign,
    to_gpt2,
    to_rows,
)
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.transformer import Transformer, TransformerConfig
from tests.addons.interop.small_bundles import small_bundle


@pytest.mark.parametrize("table", [BART, CTRANSLATE2, MARIAN])
def test_every_parameter_of_a_layer_has_a_place(table: Table) -> None:
    model = small_bundle({"encoder_layers": 2, "decoder_layers": 1}).model
    weights = all_parameters(model)
    places = [*table.places({"encoder": 2, "decoder": 1}, "post")]
    named = [name for place in places for name in place.ours]
    of_layers = {name for name in weights if ".layers." in name}
    assert set(named) == of_layers and len(named) == len(of_layers)
    written = to_foreign(places, weights)
    assert sum(each.numel() for each in written.values()) == sum(
        weights[name].numel() for name in of_layers
    )


def test_rows_go_to_the_ids_of_the_other_vocabulary_and_back() -> None:
    ours, rows = torch.arange(8.0).view(4, 2), [2, 0, None, 1]
    theirs = to_rows(ours, rows)
    assert theirs.tolist() == [[2.0, 3.0], [6.0, 7.0], [0.0, 1.0]]
    assert from_rows(theirs, rows, -1.0).tolist() == [
        [0.0, 1.0], [2.0, 3.0], [-1.0, -1.0], [6.0, 7.0],
    ]  # fmt: skip


def weights(**more: object) -> tuple[TransformerConfig, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    config = TransformerConfig(
        d_model=8, d_ff=12, heads=2, encoder_layers=1, decoder_layers=2, output_bias=True, **more
    )
    model = Transformer(config, 9, 9)
    found = {name: each.detach() for name, each in model.named_parameters(remove_duplicate=False)}
    for each in found.values():
        each.normal_()
    return config, found


def from_family(
    config: TransformerConfig,
    theirs: dict[str, torch.Tensor],
    rows: Rows,
    like: dict[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    found = {**theirs, LOGITS_BIAS: theirs[LOGITS_BIAS][0]}
    return from_foreign(bart_places(config, [rows, rows]), found, like)


@pytest.mark.parametrize("tie", ["three-way", "two-way", "none"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_there_and_back_is_the_identity(tie: str, norm: str) -> None:
    config, ours = weights(tie=tie, norm=norm)
    rows = [8, 3, 0, 1, 2, 4, 5, 6, 7]
    theirs = to_bart(config, ours, [rows, rows])
    back = from_family(config, theirs, rows, ours)
    assert back.keys() == ours.keys()
    assert all(torch.equal(back[name], ours[name]) for name in ours)
    assert theirs[LOGITS_BIAS].shape == (1, 9)
    assert torch.equal(theirs[LOGITS_BIAS][0, 8], ours["projection.bias"][0])


def test_a_token_that_the_other_vocabulary_lacks_is_never_produced() -> None:
    config, ours = weights()
    rows = [7, None, 0, 1, 2, 3, 4, 5, 6]
    theirs = to_bart(config, ours, [rows, rows])
    assert theirs["model.shared.weight"].shape == (8, 8)
    back = from_family(config, theirs, rows, ours)
    assert back["projection.bias"][1] == ABSENT
    assert not back["target_embeddings.weight"][1].any()
    assert torch.equal(back["projection.weight"][2:], ours["projection.weight"][2:])


def test_a_shared_parameter_has_each_of_its_names() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    assert {"0.weight", "1.weight"} <= all_parameters(model).keys()


SHAPE = {"layers": 2, "d_model": 8, "d_ff": 12, "heads": 2, "positions": "learned"}


@pytest.mark.parametrize("tie", [False, True])
def test_the_names_and_shapes_are_those_of_transformers(tie: bool) -> None:
    config = LanguageConfig(**SHAPE, max_length=6, tie=tie, scale_embeddings=False)
    model = TransformerLanguageModel(config, 9)
    found = to_gpt2(config, all_parameters(model), torch.zeros(6, 8), range(9))
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=9, n_positions=6, n_embd=8, n_layer=2, n_head=2, n_inner=12,
            tie_word_embeddings=tie, bos_token_id=2, eos_token_id=2,
        )
    )  # fmt: skip
    expected = {name: each.shape for name, each in theirs.named_parameters()}
    assert {name: each.shape for name, each in found.items()} == expected
    assert is_tied(config) == tie and (GPT2_OUTPUT in found) != tie


def test_weights_come_back_in_other_rows() -> None:
    config = LanguageConfig(**SHAPE, max_length=6, scale_embeddings=False)
    model = TransformerLanguageModel(config, 9)
    weights, rows = all_parameters(model), [None, 0, 6, None, 1, 2, 3, 4, 5]
    table = weights["embeddings.positions.table"]
    back = from_foreign(gpt2_places(config, rows), to_gpt2(config, weights, table, rows), weights)
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
    torch.testing.assert_close(found["transformer.wte.weight"], found[GPT2_OUTPUT] * 8**0.5)
