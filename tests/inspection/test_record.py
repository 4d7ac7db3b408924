import pytest
import torch

from crosshead.attention.attend import sdpa
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.errors import ConfigError
from crosshead.inspection import record_attention
from crosshead.models.registry import build_model
from crosshead.models.transformer import TransformerConfig
from tests.inspection.pipelines import pipeline_of

SHAPE = TransformerConfig(encoder_layers=2, decoder_layers=3, d_model=8, d_ff=8, heads=2)
SOURCE = torch.tensor([[5, 6, 7, 2], [5, 2, 0, 0]])
TARGET = torch.tensor([[1, 5, 6], [1, 5, 6]])


def attentions(model: torch.nn.Module) -> list[MultiHeadAttention]:
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]


def test_every_attention_is_recorded_by_name() -> None:
    model = build_model(SHAPE, 10, 10).eval()
    with record_attention(model) as recorded:
        model(SOURCE, TARGET)
    assert recorded.keys() == {
        *(f"encoder.layers.{n}.attention" for n in range(2)),
        *(f"decoder.layers.{n}.self_attention" for n in range(3)),
        *(f"decoder.layers.{n}.cross_attention" for n in range(3)),
    }
    [weights] = recorded["decoder.layers.2.cross_attention"]
    assert weights.shape == (2, 2, 3, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3))
    assert torch.all(weights[1, :, :, 2:] == 0)  # padding
    [written] = recorded["decoder.layers.0.self_attention"]
    assert torch.all(written.triu(1) == 0)


def test_recording_changes_no_output_and_is_undone() -> None:
    model = build_model(SHAPE, 10, 10).eval()
    seen: list[torch.Tensor] = []
    for module in attentions(model):
        module.backend = sdpa
    before = model(SOURCE, TARGET)
    attentions(model)[0].backend = attentions(build_model(SHAPE, 10, 10))[0].backend
    attentions(model)[0].observe = seen.append

    def interrupted() -> None:
        with record_attention(model) as recorded:
            torch.testing.assert_close(model(SOURCE, TARGET), before)
            assert all(len(calls) == 1 for calls in recorded.values())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not seen
    model(SOURCE, TARGET)
    assert len(seen) == 1
    assert all(
        module.backend is sdpa and module.observe is None for module in attentions(model)[1:]
    )


def test_a_pipeline_stands_for_its_model() -> None:
    pipeline = pipeline_of("transformer")
    with record_attention(pipeline) as recorded:
        pipeline.model(SOURCE, TARGET)
    assert all(len(calls) == 1 for calls in recorded.values()) and len(recorded) == 8
    message = "expected a model or what crosshead.load returns, found str"
    with pytest.raises(ConfigError, match=message), record_attention("runs/dates"):  # type: ignore[arg-type]
        pass
