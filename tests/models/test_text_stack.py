import pytest
import torch

from crosshead.models.encoder_only import EncoderConfig
from crosshead.models.language import LanguageConfig
from crosshead.models.registry import build_model
from crosshead.models.text_stack import TextStack, TextStackConfig

SHAPE = {"layers": 3, "d_model": 64, "d_ff": 64, "heads": 2}
VOCABULARY = 50

pytestmark = pytest.mark.parametrize("kind", [LanguageConfig, EncoderConfig])


def built(kind: type[TextStackConfig], **changes: object) -> TextStack:
    torch.manual_seed(0)
    model = build_model(kind.model_validate({**SHAPE, **changes}), VOCABULARY, VOCABULARY)
    assert isinstance(model, TextStack)
    return model


def test_the_projection_is_the_embeddings_where_they_are_tied(kind: type[TextStackConfig]) -> None:
    apart, tied = built(kind), built(kind, tie=True)
    assert apart.projection.weight is not apart.embeddings.weight
    assert tied.projection.weight is tied.embeddings.weight
    numbers = [sum(each.numel() for each in model.parameters()) for model in (apart, tied)]
    assert numbers[0] - numbers[1] == VOCABULARY * 64


def test_the_bias_of_the_projection_is_wished_for_and_begins_with_nothing(
    kind: type[TextStackConfig],
) -> None:
    assert built(kind).projection.bias is None
    assert torch.equal(built(kind, output_bias=True).projection.bias, torch.zeros(VOCABULARY))


def test_a_deeper_stack_begins_with_smaller_branches(kind: type[TextStackConfig]) -> None:
    shallow, deep = (built(kind, layers=layers) for layers in (1, 12))
    assert len(list(deep.layers())) == 12
    small, large = (each.stack.layers[0].feedforward.outer.weight for each in (deep, shallow))
    ratio = float(small.detach().std() / large.detach().std())
    assert ratio == pytest.approx(12**-0.5, rel=0.1)


def test_its_shape_is_a_clause(kind: type[TextStackConfig]) -> None:
    said = kind.model_validate(SHAPE).shape()
    assert said.startswith("3 layers, d_model 64, d_ff 64, 2 heads, pre-norm")


def test_embeddings_are_scaled_unless_they_are_not_to_be(kind: type[TextStackConfig]) -> None:
    tokens = torch.tensor([[4, 5]])
    for scaled, factor in ((True, 8.0), (False, 1.0)):
        model = built(kind, scale_embeddings=scaled, positions="none").eval()
        expected = factor * model.embeddings.weight[tokens]
        torch.testing.assert_close(model.embeddings(tokens), expected)


def test_absent_tokens_are_never_predicted(kind: type[TextStackConfig]) -> None:
    model = built(kind, absent=[0, 3], tie=True)
    assert model.projection.weight is model.embeddings.weight
    assert model(torch.tensor([[4, 5]])).softmax(-1)[..., [0, 3]].eq(0).all()
    with pytest.raises(ValueError, match="absent needs output_bias = false"):
        built(kind, absent=[0], output_bias=True)
