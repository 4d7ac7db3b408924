import pytest
import torch
from torch import Tensor

from crosshead.attention.block_sparse import BlockSparseMask
from crosshead.attention.masks import causal, window
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.inspection.probe import dense, probed
from crosshead.inspection.trace import trace
from crosshead.models.transformer import Transformer
from tests.inspection.pipelines import pipeline_of

TEXT, TARGET = "to be or", "that is to be"


def test_a_trace_leaves_nothing_in_the_model() -> None:
    pipeline = pipeline_of("transformer")
    assert isinstance(pipeline.model, Transformer)
    with pytest.raises(ZeroDivisionError):
        _interrupted(pipeline.model, lambda: trace(pipeline, TEXT, TARGET))
    for module in pipeline.model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks
        assert getattr(module, "observe", None) is getattr(module, "backend", None) is None


def _interrupted(model: Transformer, run: object) -> None:
    whole = model.projection.forward
    model.projection.forward = lambda x: 1 / 0  # type: ignore[assignment, method-assign]
    try:
        run()  # type: ignore[operator]
    finally:
        model.projection.forward = whole  # type: ignore[method-assign]


def test_the_parts_of_the_values_are_those_of_the_output() -> None:
    pipeline = pipeline_of("pre-norm, multi-query")
    kept: list[Tensor] = []
    module = pipeline.model.attentions()["cross"][1]
    assert isinstance(module, MultiHeadAttention)
    handle = module.register_forward_hook(lambda *call: kept.append(call[2]))
    layer = trace(pipeline, TEXT, TARGET).attention["cross"][1]
    handle.remove()
    matrix = module.output.weight.detach().view(-1, module.heads, module.d_value)
    parts = torch.einsum("hqk,hke,dhe->hqkd", layer.weights, layer.value, matrix)
    torch.testing.assert_close(parts.norm(dim=-1), layer.norms)
    torch.testing.assert_close(parts.sum((0, 2)) + module.output.bias.detach(), kept[0][0])


def test_a_block_sparse_mask_as_a_matrix() -> None:
    mask = window(3) & causal
    blocked = mask.evaluate(512, 512, batch=1)
    assert isinstance(blocked, BlockSparseMask)
    assert torch.equal(dense(blocked)[0, 0], mask.dense(512, 512, batch=1)[0, 0])


def test_what_nobody_reads_is_not_kept() -> None:
    pipeline = pipeline_of("transformer")
    with probed(pipeline.model, keeps=False) as probe:
        pipeline("to be")  # type: ignore[operator]
    assert not probe.calls and not probe.weights and not probe.states
