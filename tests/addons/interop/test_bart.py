"""Weights under the family's names and back are the same weights."""

import pytest
import torch

from crosshead.addons.interop.bart import LOGITS_BIAS, places, to_family
from crosshead.addons.interop.weights import ABSENT, Rows, all_parameters, from_foreign
from crosshead.models.transformer import Transformer, TransformerConfig


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
    return from_foreign(places(config, [rows, rows]), found, like)


@pytest.mark.parametrize("tie", ["three-way", "two-way", "none"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_there_and_back_is_the_identity(tie: str, norm: str) -> None:
    config, ours = weights(tie=tie, norm=norm)
    rows = [8, 3, 0, 1, 2, 4, 5, 6, 7]
    theirs = to_family(config, ours, [rows, rows])
    back = from_family(config, theirs, rows, ours)
    assert back.keys() == ours.keys()
    assert all(torch.equal(back[name], ours[name]) for name in ours)
    assert theirs[LOGITS_BIAS].shape == (1, 9)
    assert torch.equal(theirs[LOGITS_BIAS][0, 8], ours["projection.bias"][0])


def test_a_token_that_the_other_vocabulary_lacks_is_never_produced() -> None:
    config, ours = weights()
    rows = [7, None, 0, 1, 2, 3, 4, 5, 6]
    theirs = to_family(config, ours, [rows, rows])
    assert theirs["model.shared.weight"].shape == (8, 8)
    back = from_family(config, theirs, rows, ours)
    assert back["projection.bias"][1] == ABSENT
    assert not back["target_embeddings.weight"][1].any()
    assert torch.equal(back["projection.weight"][2:], ours["projection.weight"][2:])


def test_a_shared_parameter_has_each_of_its_names() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    assert {"0.weight", "1.weight"} <= all_parameters(model).keys()
