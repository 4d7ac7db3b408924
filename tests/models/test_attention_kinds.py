from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crosshead.attention.scores import RelativeOffset, products
from crosshead.errors import ConfigError
from crosshead.models.attention_kinds import (
    POSITIONS,
    SCORES,
    AttentionParts,
    PositionKind,
    attention_parts,
    register_positions,
    register_score,
)
from crosshead.models.registry import build_model
from crosshead.models.stack import StackConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.recipe.compose import compose

SHAPE = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 8, "heads": 2}


class Scaled(nn.Module):
    """A scaled dot product with a factor of each head that is learned."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, query: Tensor, key: Tensor, relative: RelativeOffset) -> Tensor:
        return self.factor * products(query, key) / query.shape[-1] ** 0.5


class Halved(nn.Module):
    """Vectors that count positions in their first number."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.eye(d_model)[0])

    def forward(self, start: int, length: int) -> Tensor:
        return torch.arange(start, start + length)[:, None] * self.direction / 2


@pytest.fixture
def own_kinds() -> Iterator[None]:
    """A score and two kinds of positions of our own, known for the length of a test."""
    register_score("own", lambda config: Scaled(config.heads))
    register_positions("counted", PositionKind(added=lambda config: Halved(config.d_model)))

    def near(config: StackConfig, score: nn.Module, causal: bool) -> AttentionParts:
        return AttentionParts(lambda q, k, relative: score(q, k, relative) - 1.0)

    register_positions("shifted", PositionKind(attention=near, scores=frozenset({"own"})))
    yield
    del SCORES["own"], POSITIONS["counted"], POSITIONS["shifted"]


@pytest.mark.usefixtures("own_kinds")
def test_a_registered_score_and_positions_are_trained_with_the_model() -> None:
    config = TransformerConfig.model_validate({**SHAPE, "score": "own", "positions": "counted"})
    model = build_model(config, 9, 9)
    tokens = torch.randint(4, 9, (2, 5))
    model(tokens, tokens).sum().backward()
    own = [
        part for name, part in model.named_parameters()
        if name.endswith((".factor", ".direction"))
    ]  # fmt: skip
    assert len(own) == 3 + 2  # three attentions, two embeddings
    assert all(part.grad is not None and part.grad.abs().sum() > 0 for part in own)


@pytest.mark.usefixtures("own_kinds")
def test_a_registered_name_is_known_to_recipes() -> None:
    assignments = ["model.score=own", "model.positions=shifted", "max_updates=1"]
    data = {"data": {"source": "a", "target": "b"}}
    recipe = compose("tiny", flags=data, assignments=assignments)
    assert (recipe.model.score, recipe.model.positions) == ("own", "shifted")
    with pytest.raises(ConfigError, match="do not work with score dot"):
        compose("tiny", flags=data, assignments=["model.score=dot", *assignments[1:]])


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    for key, names in (("score", SCORES), ("positions", POSITIONS)):
        with pytest.raises(ConfigError) as caught:
            compose(
                "tiny", flags={"data": {"source": "a", "target": "b"}},
                assignments=[f"model.{key}=own", "max_updates=1"],
            )  # fmt: skip
        assert all(f"'{name}'" in str(caught.value) for name in names)


def test_a_name_of_the_package_is_not_replaced() -> None:
    with pytest.raises(ValueError, match="'dot' is a name of the package"):
        register_score("dot", lambda config: Scaled(config.heads))
    with pytest.raises(ValueError, match="'rotary' is a name of the package"):
        register_positions("rotary", PositionKind())


@pytest.mark.parametrize("positions", POSITIONS)
def test_positions_act_in_embeddings_or_in_attention(positions: str) -> None:
    config = TransformerConfig.model_validate({**SHAPE, "positions": positions})
    kind = POSITIONS[positions]
    assert kind.added is None or kind.attention is None
    plain = attention_parts(config.model_copy(update={"positions": "none"}), causal=True)
    parts = attention_parts(config, causal=True)
    changed = type(parts.score) is not type(plain.score) or parts[1:] != plain[1:]
    assert changed == (kind.attention is not None)


class Wide(nn.Module):
    """Positions and other parts that return float32, whatever they are given."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.full((1, d_model), 0.1))

    def forward(self, *given: Any) -> Tensor:
        if len(given) == 3:  # weights and values
            return given[0].float() @ given[1].float()
        if isinstance(given[0], int):
            return self.vectors.float().expand(given[1], -1)
        return given[0].float()


@pytest.mark.parametrize("kind", ["added", "rotate", "combine"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_added_parts_may_return_float32(kind: str, dtype: torch.dtype) -> None:
    """Their results are converted to the type of the model, gradients included."""
    made = {
        "added": PositionKind(added=lambda config: Wide(config.d_model)),
        "rotate": PositionKind(attention=lambda *each: AttentionParts(each[1], rotate=Wide(4))),
        "combine": PositionKind(attention=lambda *each: AttentionParts(each[1], combine=Wide(4))),
    }
    register_positions("wide", made[kind])
    try:
        config = TransformerConfig.model_validate({**SHAPE, "positions": "wide"})
        model = build_model(config, 20, 20).to(dtype)
    finally:
        del POSITIONS["wide"]
    tokens = torch.randint(4, 20, (2, 40))
    logits = model(tokens, tokens)
    assert logits.dtype == dtype
    logits.sum().backward()
    assert any(part.grad is not None and part.grad.any() for part in model.parameters())
