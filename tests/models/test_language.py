import math

import pytest
import torch
from torch.nn import functional as F

from crosshead.config import validate
from crosshead.errors import ConfigError, UserError
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.vocabulary import PAD
from tests.learning import SEEDS, learns
from tests.models.small_language_models import SHAPE, VARIANTS, model_of, nothing, periodic
from tests.models.small_transformers import VOCABULARY, tokens

# Shape


def test_its_parameters_are_those_of_gpt2() -> None:
    """Radford et al. 2019, Table 2: 117 M were printed; released were 124 M, tied."""
    config = LanguageConfig(
        layers=12, d_model=768, d_ff=3072, heads=12, positions="learned", tie=True
    )
    with torch.device("meta"):
        model = TransformerLanguageModel(config, 50_257)
    assert sum(parameter.numel() for parameter in model.parameters()) == 124_439_808
    assert config.shape() == "12 layers, d_model 768, d_ff 3072, 12 heads, pre-norm"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layers": 0}, "layers: .*1 or more"),
        ({"d_model": 100, "heads": 8}, "d_model 100 is not divisible by heads 8"),
        ({"encoder_layers": 2}, "unknown key 'encoder_layers'; did you mean"),
        ({"tie": "three-way"}, "tie: expected true or false"),
    ],
)
def test_impossible_shapes_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(LanguageConfig, values)


def test_learned_positions_end_with_an_error_that_names_both_lengths() -> None:
    model = model_of(VARIANTS["language, learned and tied"])
    with pytest.raises(UserError, match=r"65 tokens .* 64 learned positions"):
        model(tokens(1, 65))
    _, state = model.step(model.start(nothing(1)), tokens(1, 64))
    with pytest.raises(UserError, match=r"65 tokens .* 64 learned positions"):
        model.step(state, tokens(1, 1))


# Weights


@pytest.mark.parametrize("tie", [True, False])
def test_tying_shares_storage(tie: bool) -> None:
    model = TransformerLanguageModel(LanguageConfig(**SHAPE, tie=tie), VOCABULARY)
    assert (model.embeddings.weight is model.projection.weight) == tie


def test_it_begins_without_preferences() -> None:
    """Logits of unit variance, whatever the text: half a nat more than a fair guess, log V."""
    torch.manual_seed(0)
    config = LanguageConfig(layers=4, d_model=128, d_ff=512, heads=4, dropout=0.0)
    model = TransformerLanguageModel(config, 69)
    text = torch.randint(4, 69, (16, 65))
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    assert abs(loss.item() - math.log(69) - 0.5) < 0.2


def test_padding_is_not_trained_by_being_read() -> None:
    model = TransformerLanguageModel(LanguageConfig(**SHAPE), VOCABULARY)
    text = torch.tensor([[5, 6, PAD, PAD]])
    model(text).sin().sum().backward()
    assert (model.embeddings.weight.grad[PAD] == 0).all()
    assert (model.embeddings.weight.grad[5] != 0).any()


# Learning


@pytest.mark.parametrize("seed", SEEDS)
def test_it_learns_to_repeat(seed: int) -> None:
    """Six random tokens again and again: the first are chance, all later ones are certain."""
    torch.manual_seed(seed)
    config = LanguageConfig(layers=1, d_model=32, d_ff=64, heads=4, dropout=0.0)
    model = TransformerLanguageModel(config, VOCABULARY)
    optimiser = torch.optim.Adam(model.parameters())
    unseen = periodic(100, period=6, length=18, seed=10_000)

    def update(number: int) -> float:
        optimiser.param_groups[0]["lr"] = 0.01 / (1 + number / 200)
        text = periodic(64, period=6, length=18, seed=number)
        logits = model(text[:, :-1])
        loss = F.cross_entropy(logits[:, 5:].flatten(0, 1), text[:, 6:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    @torch.inference_mode()
    def learned() -> bool:
        written, state = unseen[:, :6], model.start(nothing(100))
        fed = written
        for _ in range(12):
            features, state = model.step(state, fed)
            fed = model.logits(features).argmax(-1, keepdim=True)
            written = torch.cat((written, fed), dim=1)
        return torch.equal(written, unseen)

    assert learns(update, learned, most=1000, below=0.05)
