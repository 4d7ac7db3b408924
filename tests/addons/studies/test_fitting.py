import math

import pytest
import torch
from torch import Generator, nn

from crosshead.addons.studies.captions import transformer
from crosshead.addons.studies.fitting import (
    BAHDANAU,
    CONVOLUTIONAL,
    FIRST,
    LUONG,
    PLAIN,
    TRANSFORMER,
    WIDTHS,
    WITHIN,
    Reader,
    accuracy,
    as_large,
    drawn_from,
    labelled_at,
    shapes,
    size,
    updates,
    weights,
)
from crosshead.models.recurrent import RecurrentConfig
from crosshead.models.registry import AnyConfig, build_model
from crosshead.text.batching import Batch


def same_letter(generator: Generator) -> Batch:
    """The label of each position is its letter, counted backwards."""
    tokens = torch.randint(FIRST, FIRST + 4, (16, 3), generator=generator)
    return Batch((tokens,), 2 * FIRST + 3 - tokens)


def trained(seed: int, most: int) -> tuple[float, float]:
    with drawn_from(seed) as generator:
        model = Reader(FIRST + 4, 16, nn.Identity())
        test = same_letter(generator)
    before = accuracy(model, test)
    norms = list(updates(model, same_letter, generator, most=most, rate=0.02, warmup=5))
    assert len(norms) == most and all(0 < norm < math.inf for norm in norms)
    return before, accuracy(model, test)


def test_a_reader_learns_and_does_so_by_its_seed() -> None:
    before, after = trained(1, 60)
    assert before < 1.0 and after == 1.0
    assert trained(2, 3) == trained(2, 3)


def test_weights_drawn_from_a_seed_leave_the_generator_alone() -> None:
    before = torch.get_rng_state()
    with drawn_from(5):
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_only_what_is_labelled_counts() -> None:
    tokens = torch.tensor([[FIRST, FIRST + 1], [FIRST + 1, FIRST]])
    batch = labelled_at(tokens, torch.tensor([1, 0]), torch.tensor([FIRST + 1, FIRST]))
    assert batch.target_output.tolist() == [[0, FIRST + 1], [FIRST, 0]]
    model = Reader(FIRST + 2, 4, nn.Identity())
    with torch.no_grad():
        model.projection.bias[FIRST] = 100.0  # says FIRST everywhere
    assert accuracy(model, batch) == pytest.approx(0.5)


RECURRENT = {"architecture": "recurrent"}


def of_width(d_model: int) -> AnyConfig:
    return RecurrentConfig(d_model=d_model)


def test_weights_are_those_that_a_model_has() -> None:
    assert weights(of_width(16), 50) == size(build_model(of_width(16), 50, 50))


@pytest.mark.parametrize("wanted", [100_000, 123_456])
def test_no_other_width_is_nearer(wanted: int) -> None:
    found = as_large(RECURRENT, 50, wanted)
    distance = abs(weights(found, 50) - wanted)
    assert distance <= 0.02 * wanted
    for width in (found.d_model - 2, found.d_model + 2):
        assert abs(weights(of_width(width), 50) - wanted) >= distance


@pytest.mark.parametrize("wanted", [1, 10**12])
def test_a_size_that_no_width_gives_is_refused(wanted: int) -> None:
    nearest = WIDTHS[0] if wanted == 1 else WIDTHS[-1]
    with pytest.raises(ValueError, match=rf"no width gives {wanted:,} .*: {nearest} gives"):
        as_large(RECURRENT, 50, wanted)


def test_all_have_as_many_weights_as_the_transformer() -> None:
    compared = shapes(transformer(quick=True), 4000)
    wanted = weights(compared[TRANSFORMER], 4000)
    assert list(compared) == [PLAIN, BAHDANAU, LUONG, CONVOLUTIONAL, TRANSFORMER]
    for shape in compared.values():
        assert abs(weights(shape, 4000) / wanted - 1) <= WITHIN
