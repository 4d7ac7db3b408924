import pytest

from crosshead.addons.studies.captions import transformer
from crosshead.addons.studies.equal import (
    BAHDANAU,
    CONVOLUTIONAL,
    LUONG,
    PLAIN,
    TRANSFORMER,
    WIDTHS,
    WITHIN,
    as_large,
    shapes,
    weights,
)
from crosshead.addons.studies.fitting import size
from crosshead.models.recurrent import RecurrentConfig
from crosshead.models.registry import AnyConfig, build_model


def of_width(d_model: int) -> AnyConfig:
    return RecurrentConfig(d_model=d_model)


def test_weights_are_those_that_a_model_has() -> None:
    assert weights(of_width(16), 50) == size(build_model(of_width(16), 50, 50))


@pytest.mark.parametrize("wanted", [100_000, 123_456])
def test_no_other_width_is_nearer(wanted: int) -> None:
    found = as_large(of_width, 50, wanted)
    distance = abs(weights(found, 50) - wanted)
    assert distance <= 0.02 * wanted
    for width in (found.d_model - 2, found.d_model + 2):
        assert abs(weights(of_width(width), 50) - wanted) >= distance


@pytest.mark.parametrize("wanted", [1, 10**12])
def test_a_size_that_no_width_gives_is_refused(wanted: int) -> None:
    nearest = WIDTHS[0] if wanted == 1 else WIDTHS[-1]
    with pytest.raises(ValueError, match=rf"no width gives {wanted:,} .*: {nearest} gives"):
        as_large(of_width, 50, wanted)


def test_all_have_as_many_weights_as_the_transformer() -> None:
    compared = shapes(transformer(), 4000)
    wanted = weights(compared[TRANSFORMER], 4000)
    assert list(compared) == [PLAIN, BAHDANAU, LUONG, CONVOLUTIONAL, TRANSFORMER]
    for shape in compared.values():
        assert abs(weights(shape, 4000) / wanted - 1) <= WITHIN
