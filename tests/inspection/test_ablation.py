import copy

import pytest
import torch
from torch import Tensor

from crosshead.attention.attend import weighted_sum
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.scores import RelativeOffset
from crosshead.errors import ConfigError
from crosshead.inspection import without_heads
from crosshead.models.base import Model
from crosshead.models.transformer import Transformer
from tests.inspection.pipelines import CONFIGS, pipeline_of

SOURCE = torch.tensor([[5, 6, 7, 2], [5, 2, 0, 0]])
TARGET = torch.tensor([[1, 5, 6], [1, 5, 6]])


def model_of(name: str) -> Model:
    return pipeline_of(name).bundle.model


def outputs(model: Model) -> Tensor:
    inputs = (SOURCE, TARGET) if model.config.task == "translation" else (TARGET,)
    return model.features(*inputs)


def snapshot(model: Model) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("transformer", "cross"),
        ("transformer", "encoder"),
        ("transformer", "decoder"),
        ("pre-norm, multi-query", "cross"),
        ("windows", "decoder"),
        ("language", "decoder"),
        ("transformer-xl", "decoder"),
        ("encoder", "encoder"),
    ],
)
def test_it_equals_zeroing_rows_of_the_output_projection(name: str, kind: str) -> None:
    model = model_of(name)
    before, whole = snapshot(model), outputs(model)
    pruned = copy.deepcopy(model)
    for layer, head in ((1, 2), (2, 4), (2, 1)):
        module = pruned.attentions()[kind][layer - 1]  # type: ignore[index]
        assert isinstance(module, MultiHeadAttention)
        rows = module.output.weight.data.T  # W^O: a row a value
        rows.view(4, module.d_value, -1)[head - 1] = 0
    with without_heads(model, {(1, 2), (2, 4), (2, 1)}, kind):
        torch.testing.assert_close(outputs(model), outputs(pruned))
    assert (outputs(model) - outputs(pruned)).abs().max() > 1e-4
    assert torch.equal(outputs(model), whole)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("head", [1, 3])
def test_a_head_taken_away_gathers_nothing(head: int) -> None:
    model = model_of("transformer")
    assert isinstance(model, Transformer)
    module = model.decoder.layers[1].cross_attention

    def silenced(weights: Tensor, value: Tensor, relative: RelativeOffset) -> Tensor:
        found = weighted_sum(weights, value, relative)
        found[:, head - 1] = 0
        return found

    module.combine = silenced
    expected = outputs(model)
    module.combine = weighted_sum
    with without_heads(model, [(2, head)]):  # by default of cross-attention
        torch.testing.assert_close(outputs(model), expected)


def test_decoding_step_by_step_goes_without_them_too() -> None:
    model = model_of("transformer")
    assert isinstance(model, Transformer)
    with torch.no_grad(), without_heads(model, {(1, 1), (3, 2)}):
        state, found = model.start(SOURCE), []
        for tokens in TARGET.split(1, dim=1):
            features, state = model.step(state, tokens)
            found.append(features)
        torch.testing.assert_close(torch.stack(found, dim=1), outputs(model))


@pytest.mark.parametrize("name", ["convolutional", "bahdanau", "luong"])
def test_without_its_only_head_a_layer_sees_nothing_of_the_source(name: str) -> None:
    model = model_of(name)
    before = outputs(model)
    layers = len(model.attentions()["cross"])
    if name == "convolutional":  # all else that its decoder knows is what it has written
        with without_heads(model, {(layer, 1) for layer in range(1, layers + 1)}):
            shorter = model.features(SOURCE[:, [0, 3]], TARGET)
            torch.testing.assert_close(outputs(model), shorter)
    with without_heads(model, {(layers, 1)}):
        assert (outputs(model) - before).abs().max() > 1e-4
    assert torch.equal(outputs(model), before)


def test_the_model_is_as_before_when_the_block_raises() -> None:
    model = model_of("transformer")
    before, whole = snapshot(model), outputs(model)

    def interrupted() -> None:
        with without_heads(model, {(1, 1)}), without_heads(model, {(1, 1), (2, 1)}, "encoder"):
            assert not torch.equal(outputs(model), whole)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert torch.equal(outputs(model), whole)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_no_head_is_the_whole_model() -> None:
    model = model_of("language")
    whole = outputs(model)
    with without_heads(model, set()):
        assert torch.equal(outputs(model), whole)


@pytest.mark.parametrize(
    ("name", "heads", "kind", "words"),
    [
        ("transformer", {(4, 1)}, None, "no layer 4 in the cross-attention: it has layers 1 to 3"),
        ("transformer", {(0, 1)}, None, "no layer 0 in the cross-attention"),
        ("transformer", {(3, 1)}, "encoder", "no layer 3 in the encoder self-attention"),
        ("transformer", {(1, 1), (1, 5)}, "decoder", "no head 5 .*: it has heads 1 to 4"),
        ("convolutional", {(1, 2)}, None, "no head 2 in the cross-attention: it has only head 1"),
        ("language", {(1, 1)}, "cross", r"no attention of kind 'cross' .*'decoder'"),
        ("no attention", {(1, 1)}, None, "this model has no attention"),
    ],
)
def test_wrong_numbers_are_refused_by_name(
    name: str, heads: set[tuple[int, int]], kind: str | None, words: str
) -> None:
    model = model_of(name)
    whole = outputs(model)
    with pytest.raises(ConfigError, match=words), without_heads(model, heads, kind):
        pass
    assert torch.equal(outputs(model), whole)


def test_every_architecture_is_among_these() -> None:
    assert {config.architecture for config in CONFIGS.values()} == {
        "transformer", "convolutional", "recurrent", "language", "transformer-xl", "encoder",
    }  # fmt: skip


def test_a_pipeline_stands_for_its_model() -> None:
    pipeline = pipeline_of("transformer")
    with without_heads(pipeline.model, {(1, 2)}):
        expected = outputs(pipeline.model)
    with without_heads(pipeline, {(1, 2)}):
        assert torch.equal(outputs(pipeline.model), expected)


def test_an_argument_of_another_type_is_named() -> None:
    model = model_of("transformer")
    for heads, found in (
        ([1], "1"),
        ((1, 2), "1"),
        ([(1, 2, 3)], r"\(1, 2, 3\)"),
        (["12"], "'12'"),
    ):
        message = rf"heads: expected pairs \(layer, head\) such as \(1, 2\), found {found}$"
        with pytest.raises(ConfigError, match=message), without_heads(model, heads):  # type: ignore[arg-type]
            pass
    message = "expected a model or what crosshead.load returns, found str"
    with pytest.raises(ConfigError, match=message), without_heads("runs/dates", [(1, 1)]):  # type: ignore[arg-type]
        pass
