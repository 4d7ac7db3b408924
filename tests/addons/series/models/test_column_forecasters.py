import pytest
import torch
from torch.nn import functional as F

from crosshead.addons.series.models.column_forecasters import (
    LinearForecaster,
    LinearForecasterConfig,
    PatchForecaster,
    PatchForecasterConfig,
    moving_average,
)
from crosshead.addons.series.models.forecaster import ForecasterShape
from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.inspection.record import record_attention
from tests.addons.series.small_forecasters import SHAPE, inputs, small


def test_it_is_dlinear() -> None:
    """Zeng et al. 2023, section 4: decomposition with a moving average, one layer a part."""
    model = small("dlinear")
    assert isinstance(model, LinearForecaster) and model.seasonal is not None
    context, known, _ = inputs()
    expected = torch.zeros(3, 6, 2)
    for batch in range(3):
        for column in range(2):
            x = context[batch, :, column]
            padded = torch.cat([x[:1].repeat(2), x, x[-1:].repeat(2)])
            trend = torch.stack([padded[step : step + 5].mean() for step in range(24)])
            rest = x - trend
            found = F.linear(trend, model.trend.weight, model.trend.bias)
            found = found + F.linear(rest, model.seasonal.weight, model.seasonal.bias)
            expected[batch, :, column] = found
    torch.testing.assert_close(model(context, known)[..., 0], expected)


def test_with_a_kernel_of_1_and_the_last_value_it_is_nlinear() -> None:
    model = small("dlinear", kernel=1, normalize="last")
    assert isinstance(model, LinearForecaster) and model.seasonal is None
    context, known, _ = inputs()
    x = context.transpose(1, 2)
    expected = F.linear(x - x[..., -1:], model.trend.weight, model.trend.bias) + x[..., -1:]
    torch.testing.assert_close(model(context, known)[..., 0], expected.transpose(1, 2))


def test_the_average_of_a_line_is_the_line_but_for_its_ends() -> None:
    x = torch.arange(20.0).view(1, 1, -1)
    found = moving_average(x, 5)
    torch.testing.assert_close(found[..., 2:-2], x[..., 2:-2])
    assert found[0, 0, 0] == pytest.approx((0 + 0 + 0 + 1 + 2) / 5)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kernel": 4}, "^kernel: expected an odd number, found 4"),
        ({"d_model": 8}, "^d_model: dlinear has no hidden states"),
        ({"dropout": 0.3}, "^dropout: dlinear has no dropout"),
    ],
)
def test_impossible_kernels_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        validate(LinearForecasterConfig, values)


def patchtst(**settings: object) -> PatchForecaster:
    model = small("patchtst", **settings)
    assert isinstance(model, PatchForecaster)
    return model


def test_patches_and_their_projection_are_one_strided_convolution() -> None:
    model = patchtst()
    x = torch.randn(4, 24)
    padded = F.pad(x[:, None], (0, 3), mode="replicate")
    weight, bias = model.projection.weight, model.projection.bias
    convolved = F.conv1d(padded, weight[:, None], bias, stride=3)
    patches = model.patches(x)
    torch.testing.assert_close(model.projection(patches), convolved.transpose(1, 2))
    assert torch.equal(patches[:, 0], x[:, :6]) and torch.equal(patches[:, 1], x[:, 3:9])
    last = torch.cat([x[:, 21:], x[:, -1:].expand(4, 3)], dim=1)
    assert torch.equal(patches[:, -1], last) and patches.shape == (4, 8, 6)


def test_the_papers_shape_has_42_patches() -> None:
    """Nie et al. 2023, section 4: PatchTST/42 reads 336 steps."""
    settings = {"patch_length": 16, "patch_stride": 8}
    model = small("patchtst", ForecasterShape(336, 96, 7, 4), **settings)
    assert isinstance(model, PatchForecaster)
    assert model.patches(torch.zeros(1, 336)).shape == (1, 42, 16)
    assert model.head.weight.shape == (96, 42 * 8)


def test_columns_do_not_see_one_another() -> None:
    model, (context, known, _) = patchtst(), inputs()
    before = model(context, known)
    changed = context.clone()
    changed[..., 1] = torch.randn_like(changed[..., 1])
    after = model(changed, known)
    assert torch.equal(before[:, :, 0], after[:, :, 0])
    assert not torch.allclose(before[:, :, 1], after[:, :, 1])
    swapped = model(context.flip(-1), known)
    torch.testing.assert_close(swapped, before.flip(2))


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "t5", "none"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_kinds_of_positions_tell_patches_apart(positions: str, norm: str) -> None:
    """Without them the encoder's outputs of permuted patches are permuted."""
    model, x = patchtst(positions=positions, norm=norm), torch.randn(2, 8, 8)
    torch.manual_seed(1)
    for weight in model.parameters():  # T5's start at zero
        torch.nn.init.normal_(weight, std=0.5)

    def encoded(x: torch.Tensor) -> torch.Tensor:
        if model.positions is not None:
            x = x + model.positions(0, x.shape[1])
        return model.encoder.layers[0](x, None)

    alike = torch.allclose(encoded(x), encoded(x.flip(1)).flip(1), atol=1e-4)
    assert alike == (positions == "none")


def test_its_attention_is_recorded() -> None:
    model, (context, known, _) = patchtst(), inputs()
    with record_attention(model) as recorded:
        recordless = model(context, known)
    assert list(recorded) == [f"encoder.layers.{layer}.attention" for layer in range(2)]
    for [weights] in recorded.values():
        assert weights.shape == (6, 2, 8, 8)
        torch.testing.assert_close(weights.sum(-1), torch.ones(6, 2, 8))
    torch.testing.assert_close(model(context, known), recordless)
    assert len(model.attentions()["encoder"]) == len(list(model.layers())) == 2


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"patch_length": 4, "patch_stride": 5}, "patch_stride 5 is more than patch_length 4"),
        ({"pattern": "window", "radius": 3}, "^pattern: forecasters attend to all positions"),
        ({"max_length": 30}, "^max_length: the number of patches follows data.context"),
        ({"heads": 3}, "not divisible by heads 3"),
    ],
)
def test_impossible_patches_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        validate(PatchForecasterConfig, {"d_model": 16, "heads": 4, **values})


def test_a_context_shorter_than_a_patch_is_refused() -> None:
    with pytest.raises(ValueError, match="a context of 5 is shorter than a patch of 6"):
        small("patchtst", SHAPE._replace(context=5))
