import pytest
import torch

from crosshead.addons.series.models.series_decoders import (
    AutoregressiveForecaster,
    SeriesTransformer,
)
from crosshead.inspection.record import record_attention
from tests.addons.series.small_forecasters import SHAPE, inputs, small

NAMES = ["series-transformer", "series-recurrent"]
VARIANTS = [
    *[(name, {}) for name in NAMES],
    ("series-transformer", {"positions": "rotary", "norm": "pre"}),
    ("series-transformer", {"positions": "t5", "decoder_layers": 2}),
    ("series-recurrent", {"cell": "gru"}),
    *[(name, {"quantiles": [0.1, 0.5, 0.9]}) for name in NAMES],
    *[(name, {"normalize": "none"}) for name in NAMES],
]
MORE = SHAPE._replace(inputs=3)


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_step_by_step_is_teacher_forcing_with_the_models_own_forecasts(
    name: str, settings: dict[str, object]
) -> None:
    model, (context, known, _) = small(name, **settings), inputs()
    alone = model(context, known)
    own = alone[..., model.config.median]
    torch.testing.assert_close(model(context, known, own), alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("normalize", ["none", "instance", "last"])
@pytest.mark.parametrize("name", NAMES)
def test_columns_that_are_only_read_enter_the_encoder_alone(name: str, normalize: str) -> None:
    """A model that gives them no weight forecasts what a model without them forecasts."""
    model, plain = small(name, MORE, normalize=normalize), small(name, normalize=normalize)
    context, known, target = inputs(shape=MORE)
    own = model(context, known)[..., 0]
    torch.testing.assert_close(model(context, known, own)[..., 0], own, rtol=1e-4, atol=1e-5)
    assert own.shape == target.shape == (3, 6, 2)
    weights = model.state_dict()
    unread = [*range(2), *range(5, 9)]  # of 2 targets, 3 inputs and 4 calendar features
    plain.load_state_dict({**weights, "source.weight": weights["source.weight"][:, unread]})
    assert not torch.allclose(plain(context[..., :2], known)[..., 0], own)
    with torch.no_grad():
        model.source.weight[:, 2:5] = 0  # type: ignore[union-attr, index, operator]
    for forced in (None, target):
        torch.testing.assert_close(
            model(context, known, forced), plain(context[..., :2], known, forced)
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_step_sees_targets_before_it_and_no_later_ones(name: str) -> None:
    model, (context, known, target) = small(name), inputs()
    before = model(context, known, target)
    changed = target.clone()
    changed[:, 3] += 1
    after = model(context, known, changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])
    earlier = context.clone()
    earlier[:, -1] += 1
    assert not torch.allclose(model(earlier, known, target)[:, 0], before[:, 0])


@pytest.mark.parametrize("name", NAMES)
def test_the_calendar_of_the_horizon_is_read(name: str) -> None:
    model, (context, known, _) = small(name), inputs()
    other = known.clone()
    other[:, -1] += 0.3
    before, after = model(context, known), model(context, other)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1])


@pytest.mark.parametrize("name", NAMES)
def test_no_gradient_passes_step_by_step(name: str) -> None:
    model, (context, known, target) = small(name), inputs()
    assert isinstance(model, AutoregressiveForecaster)
    assert not model(context, known).requires_grad
    assert model(context, known, target).requires_grad


def test_direct_forecasts_read_no_target_and_learn_without() -> None:
    model, (context, known, target) = small("series-transformer", forecast="direct"), inputs()
    found = model(context, known)
    assert found.requires_grad and found.shape == (3, 6, 2, 1)
    assert torch.equal(model(context, known, target), found)


def test_a_direct_forecast_attends_to_all_steps_of_the_horizon() -> None:
    model, (context, known, _) = small("series-transformer", forecast="direct"), inputs()
    other = known.clone()
    other[:, -1] += 0.3
    assert not torch.isclose(model(context, known), model(context, other)).any()


def test_without_normalisation_a_direct_forecast_follows_the_last_value() -> None:
    """A model whose encoder is cut off reads the last value and nothing else of the context."""
    model = small("series-transformer", forecast="direct", normalize="none")
    with torch.no_grad():
        model.source.weight.zero_()  # type: ignore[union-attr, operator]
    context, known, _ = inputs()
    earlier, last = context.clone(), context.clone()
    earlier[:, :-1] += 1
    last[:, -1] += 1
    expected = model(context, known)
    assert torch.equal(model(earlier, known), expected)
    assert not torch.allclose(model(last, known), expected)


def test_all_three_kinds_of_attention_are_recorded() -> None:
    model, (context, known, target) = small("series-transformer"), inputs()
    assert isinstance(model, SeriesTransformer)
    with record_attention(model) as recorded:
        model(context, known, target)
    shapes = {name.split(".")[-1]: calls[0].shape[-2:] for name, calls in recorded.items()}
    assert shapes == {"attention": (24, 24), "self_attention": (6, 6), "cross_attention": (6, 24)}
    kinds = {kind: len(modules) for kind, modules in model.attentions().items()}
    assert kinds == {"cross": 1, "encoder": 2, "decoder": 1}
    assert len(list(model.layers())) == 3 and len(list(model.called_alone())) == 1
