"""The loss of a batch beside PyTorch's cross-entropy."""

import pytest
import torch
import torch.nn.functional as F

from crosshead.data.batching import Batch, Example, collate
from crosshead.models.registry import build_model
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.token_loss import LabelSmoothing, token_loss
from crosshead.vocabulary import PAD

VOCABULARY = 12
EXAMPLES: list[Example] = [([4, 5, 6], [7, 8]), ([5], [9, 10, 11, 4]), ([6, 7], [5])]


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2, dropout=0.0,
        output_bias=True,
    )  # fmt: skip
    found = build_model(config, VOCABULARY, VOCABULARY)
    assert isinstance(found, Transformer)
    return found


def batch_of(*rows: int) -> Batch:
    return collate(EXAMPLES, list(rows))


def gradients(model: Transformer, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    loss.backward()
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_it_is_the_cross_entropy_of_the_tokens_without_padding(
    smoothing: float, model: Transformer
) -> None:
    batch = batch_of(0, 1, 2)
    assert (batch.target_output == PAD).any()
    found = token_loss(model, batch, LabelSmoothing(smoothing))
    logits, wanted = model(*batch.inputs).flatten(0, 1), batch.target_output.flatten()
    for name, share in (("loss", smoothing), ("nll", 0.0)):
        expected = F.cross_entropy(
            logits, wanted, ignore_index=PAD, label_smoothing=share, reduction="sum"
        )
        torch.testing.assert_close(found.sums[name], expected)
        if name == "loss":
            wanted_gradients = gradients(model, expected)
            torch.testing.assert_close(gradients(model, found.sums[name]), wanted_gradients)
            logits = model(*batch.inputs).flatten(0, 1)
    assert found.count == sum(len(target) + 1 for _, target in EXAMPLES) == batch.count


def test_losses_of_parts_add_up_to_the_loss_of_the_batch(model: Transformer) -> None:
    whole = token_loss(model, batch_of(0, 1, 2), LabelSmoothing(0.1))
    parts = [token_loss(model, batch_of(row), LabelSmoothing(0.1)) for row in range(3)]
    assert whole.count == sum(part.count for part in parts)
    for name, value in whole.sums.items():
        torch.testing.assert_close(value, torch.stack([p.sums[name] for p in parts]).sum())


def test_the_settings_of_training_give_their_label_smoothing(model: Transformer) -> None:
    settings = TrainConfig(max_updates=1, learning_rate=0.1, label_smoothing=0.3)
    found = token_loss(model, batch_of(0), settings).sums["loss"]
    assert torch.equal(found, token_loss(model, batch_of(0), LabelSmoothing(0.3)).sums["loss"])
    assert not torch.equal(found, token_loss(model, batch_of(0), LabelSmoothing(0.1)).sums["loss"])
