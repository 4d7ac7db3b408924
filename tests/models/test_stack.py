import pytest
import torch
from torch import nn

from crosshead.models.language import LanguageConfig
from crosshead.models.stack import (
    decoder_stack,
    encoder_stack,
    feedforward,
    residual_init_scale,
)

CONFIG = LanguageConfig(layers=1, d_model=16, d_ff=16, heads=2, dropout=0.0)


def test_branches_of_a_deep_stack_begin_smaller() -> None:
    """So that the sum of 2 L branches of variance gain^2 has that of one of them at full size."""
    assert 2 * 6 * residual_init_scale(6) ** 2 == pytest.approx(1)
    small, plain = (feedforward(CONFIG, gain).outer.weight for gain in (0.25, 1.0))
    assert float(small.detach().std() / plain.detach().std()) == pytest.approx(0.25, rel=0.2)


def test_stacks_are_built_layer_by_layer() -> None:
    """A stack has as many layers as it says, each with its own weights, and a norm if pre-norm."""
    config = CONFIG.model_copy(update={"norm": "pre"})
    for build in (encoder_stack, decoder_stack):
        stack = build(config, 3)
        assert len(stack.layers) == 3
        assert isinstance(stack.norm, nn.LayerNorm)
        assert len({id(each) for each in stack.parameters()}) == len(list(stack.parameters()))
        outer = [layer.feedforward.outer.weight for layer in stack.layers]
        assert not torch.equal(outer[0], outer[1])
    assert isinstance(
        encoder_stack(config.model_copy(update={"norm": "post"}), 1).norm, nn.Identity
    )
