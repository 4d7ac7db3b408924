import pytest
import torch
from torch import nn

from crosshead.attention.block_sparse import BlockSparseMask
from crosshead.attention.masks import allowed, causal
from crosshead.models.language import LanguageConfig
from crosshead.models.stack import (
    cache_window,
    causal_mask,
    decoder_stack,
    encoder_stack,
    feedforward,
    residual_init_scale,
    self_mask,
)

SHAPE = {"layers": 1, "d_model": 16, "d_ff": 16, "heads": 2, "dropout": 0.0}
PATTERNS = {
    "full": {},
    "window": {"radius": 3},
    "dilated": {"radius": 2, "dilation": 3},
    "strided": {"stride": 4},
    "fixed": {"stride": 4, "columns": 1},
}


def config_of(pattern: str) -> LanguageConfig:
    return LanguageConfig.model_validate({**SHAPE, "pattern": pattern, **PATTERNS[pattern]})


def test_branches_of_a_deep_stack_begin_smaller() -> None:
    """So that the sum of 2 L branches of variance gain^2 has that of one of them at full size."""
    assert 2 * 6 * residual_init_scale(6) ** 2 == pytest.approx(1)
    small, plain = (feedforward(config_of("full"), gain).outer.weight for gain in (0.25, 1.0))
    assert float(small.detach().std() / plain.detach().std()) == pytest.approx(0.25, rel=0.2)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_steps_are_masked_as_all_at_once(pattern: str) -> None:
    """The rows of new positions are the last rows of the mask of all of them."""
    config, cpu = config_of(pattern), torch.device("cpu")
    whole = self_mask(config, causal).dense(12, 12)[0, 0]
    for new, before in ((1, 11), (3, 9), (12, 0)):
        mask = causal_mask(config, new, before, cpu)
        rows = torch.ones(new, before + new).bool() if mask is None else mask
        assert isinstance(rows, torch.Tensor)
        assert torch.equal(rows.expand(1, 1, new, 12)[0, 0], whole[12 - new :])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_position_sees_further_back_than_it_reaches(pattern: str) -> None:
    config = config_of(pattern)
    query, key = self_mask(config, causal).dense(40, 40)[0, 0].nonzero().T
    furthest, reach = int((query - key).max()), cache_window(config)
    assert furthest == reach if reach is not None else furthest >= 36


@pytest.mark.parametrize("length", [300, 1000])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("after", [True, False])
def test_a_pattern_scores_less_than_half_of_the_keys(
    pattern: str, length: int, after: bool
) -> None:
    config = config_of(pattern)
    among = allowed(torch.ones(length, length).bool()) if after else causal
    mask = self_mask(config, among).evaluate(length, length)
    if pattern == "full":
        assert not isinstance(mask, BlockSparseMask)
        return
    assert isinstance(mask, BlockSparseMask)
    assert sum(part.additive.shape[-1] for part in mask.parts) < length // 2


def test_stacks_are_built_layer_by_layer() -> None:
    """A stack has as many layers as it says, each with its own weights, and a norm if pre-norm."""
    config = config_of("full").model_copy(update={"norm": "pre"})
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
