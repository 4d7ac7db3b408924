import math

import pytest
import torch
from torch import nn

from crosshead.attention.dropout import dropout
from crosshead.layers.dropout import Dropout


def test_in_training_it_is_dropout() -> None:
    x = torch.randn(20, 30)
    torch.manual_seed(1)
    found = Dropout(0.3)(x)
    torch.manual_seed(1)
    assert torch.equal(found, dropout(x, 0.3))


@pytest.mark.parametrize("module", [Dropout(0.0), Dropout(0.5).eval()], ids=["p=0", "eval"])
def test_otherwise_it_is_the_identity(module: nn.Module) -> None:
    x = torch.randn(3, 4)
    assert module(x) is x


@pytest.mark.parametrize("p", [1e-9, 0.0019, 0.0039, 0.997, 1.0, 1.5, -0.1, math.nan])
def test_a_share_that_a_byte_cannot_draw_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match=r"one random byte .* 1/256 .* 255/256"):
        Dropout(p)


def test_it_says_its_share() -> None:
    assert repr(Dropout(0.25)) == "Dropout(p=0.25)"
