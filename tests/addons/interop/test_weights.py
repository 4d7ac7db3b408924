"""Tables of weight names: what goes to a toolkit comes back the same."""

import pytest
import torch

from crosshead.addons.interop.weights import (
    BART,
    CTRANSLATE2,
    MARIAN,
    Table,
    all_parameters,
    from_rows,
    to_foreign,
    to_rows,
)
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
