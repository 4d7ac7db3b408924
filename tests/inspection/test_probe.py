import math

import pytest
import torch
from torch import Tensor

from crosshead.attention.block_sparse import BlockSparseMask
from crosshead.attention.masks import causal, window
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.inspection import record_attention, without_heads
from crosshead.inspection.probe import dense, probed
from crosshead.inspection.trace import trace
from crosshead.models.transformer import Transformer
from crosshead.tasks.translation.translator import Translator
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
    with probed(pipeline.model, keeps="nothing") as probe:
        pipeline("to be")  # type: ignore[operator]
    assert not probe.calls and not probe.weights and not probe.states


def log_prob(pipeline: Translator) -> float:
    return pipeline.score([TEXT], [TARGET])[0].log_prob


def test_blocks_that_are_nested_all_count() -> None:
    pipeline = pipeline_of("transformer")
    assert isinstance(pipeline, Translator)
    both = {(1, 1), (1, 2)}
    with without_heads(pipeline, both):
        expected = log_prob(pipeline)
        with record_attention(pipeline) as inner:
            assert log_prob(pipeline) == pytest.approx(expected, abs=1e-5)
        assert sum(map(math.log, trace(pipeline, TEXT, TARGET).probabilities)) == pytest.approx(
            expected, abs=1e-5
        )
    with record_attention(pipeline) as outer, without_heads(pipeline, {(1, 1)}):
        with without_heads(pipeline, {(1, 2)}):
            assert log_prob(pipeline) == pytest.approx(expected, abs=1e-5)
        assert log_prob(pipeline) != pytest.approx(expected, abs=1e-5)
    assert {name: len(calls) for name, calls in outer.items()} == {
        name: 2 * len(calls) for name, calls in inner.items()
    }


def test_blocks_may_end_in_any_order() -> None:
    pipeline = pipeline_of("transformer")
    assert isinstance(pipeline, Translator)
    whole = log_prob(pipeline)
    first, second = (without_heads(pipeline, {(1, head)}) for head in (1, 2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with without_heads(pipeline, {(1, 2)}):
        expected = log_prob(pipeline)
    assert log_prob(pipeline) == expected != whole
    second.__exit__(None, None, None)
    assert log_prob(pipeline) == whole
    assert not any(getattr(module, "backend", None) for module in pipeline.model.modules())


def test_what_is_watched_is_not_left_to_another_engine() -> None:
    pipeline = pipeline_of("transformer")
    assert isinstance(pipeline, Translator)
    pipeline.engine = lambda translator, decode: pytest.fail("the engine was asked")
    with record_attention(pipeline) as recorded:
        pipeline("to be")
    assert all(recorded.values())
