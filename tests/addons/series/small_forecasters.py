"""What the tests of forecasters share: small ones, and windows for them."""

from typing import Any

import torch
from torch import Tensor

from crosshead.addons.series.models.forecaster import Forecaster, ForecasterShape, build_forecaster
from crosshead.models.registry import CONFIGS

SHAPE = ForecasterShape(context=24, horizon=6, columns=2, known=4)
SIZES: dict[str, dict[str, Any]] = {
    "patchtst": {"layers": 2, "d_model": 8, "d_ff": 16, "heads": 2, "patch_length": 6,
                 "patch_stride": 3},
    "dlinear": {"kernel": 5},
    "series-transformer": {"encoder_layers": 2, "d_model": 8, "d_ff": 16, "heads": 2},
    "series-recurrent": {"d_model": 8},
}  # fmt: skip


def small(architecture: str, shape: ForecasterShape = SHAPE, **settings: Any) -> Forecaster:
    values = {"architecture": architecture, **SIZES[architecture], **settings}
    torch.manual_seed(0)
    return build_forecaster(CONFIGS[architecture].model_validate(values), shape).eval()


def inputs(batch: int = 3, shape: ForecasterShape = SHAPE) -> tuple[Tensor, Tensor, Tensor]:
    """Context, calendar and target."""
    generator = torch.Generator().manual_seed(1)

    def drawn(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=generator)

    return (
        3 + 2 * drawn(batch, shape.context, shape.columns + shape.inputs),
        drawn(batch, shape.context + shape.horizon, shape.known) / 4,
        3 + 2 * drawn(batch, shape.horizon, shape.columns),
    )
