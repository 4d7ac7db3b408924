"""Every kind of recurrent model learns to copy or to reverse, to the last sequence not shown."""

from collections.abc import Callable

import pytest
import torch

from crosshead.config import validate
from crosshead.data.batching import Example, collate
from crosshead.data.synthetic import copy_task, reverse_task
from crosshead.decoding.search import Specials, greedy_search
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.training.loss import fused_cross_entropy
from crosshead.vocabulary import BOS, EOS, PAD

Task = Callable[[int, int, int, int], list[Example]]


def trained(
    config: RecurrentConfig, vocabulary: int, examples: list[Example], updates: int
) -> Recurrent:
    """After so many updates of Adam, of 64 pairs each, at a rate that falls to zero."""
    torch.manual_seed(0)
    model = Recurrent(config, vocabulary, vocabulary)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = 0.64 / config.d_model * (1 - update / updates)
        batch = collate(examples, torch.randint(len(examples), (64,)).tolist())
        features = model.features(batch.source, batch.target_input)
        written = batch.target_output != PAD
        found = fused_cross_entropy(
            features[written], model.projection.weight, None, batch.target_output[written], 0.0
        )
        optimizer.zero_grad()
        (found.loss / found.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def exact_match(model: Recurrent, examples: list[Example]) -> float:
    """The share of examples whose greedy output is the target to the last token."""
    source = collate(examples, range(len(examples))).source
    limits = torch.full((len(examples),), 10)
    with torch.inference_mode():
        found = greedy_search(model, source, limits, Specials(BOS, EOS, (PAD, BOS)), 0.0)
    pairs = zip(found, examples, strict=True)
    return sum(best[0].tokens == list(target) for best, (_, target) in pairs) / len(examples)


def learned(
    config: RecurrentConfig, task: Task, vocabulary: int, longest: int, updates: int
) -> float:
    """The exact match on sequences that training did not show."""
    examples = task(6000, vocabulary, longest, 1)
    train, rest = examples[:5000], examples[5000:]
    shown = {tuple(source) for source, _ in train}
    test = [example for example in rest if tuple(example[0]) not in shown]
    assert len(test) > 50
    return exact_match(trained(config, vocabulary, train, updates), test)


def shape(width: int, **options: object) -> RecurrentConfig:
    values = {"encoder_layers": 1, "decoder_layers": 1, "d_model": width, "dropout": 0.0}
    return validate(RecurrentConfig, values | options)


ATTENTIVE = {
    "bahdanau": (reverse_task, {"cell": "gru"}),
    "luong-dot": (copy_task, {}),
    "luong-general": (reverse_task, {}),
    "luong-concat": (copy_task, {}),
    "luong-location": (reverse_task, {}),
    "luong-local": (copy_task, {"radius": 2}),
}


@pytest.mark.parametrize("attention", ATTENTIVE)
def test_every_attention_learns(attention: str) -> None:
    task, options = ATTENTIVE[attention]
    assert learned(shape(32, attention=attention, **options), task, 7, 6, updates=300) == 1.0


def test_it_learns_with_input_feeding() -> None:
    config = shape(32, attention="luong-general", input_feeding=True)
    assert learned(config, copy_task, 7, 6, updates=300) == 1.0


@pytest.mark.parametrize(("cell", "task"), [("lstm", reverse_task), ("gru", copy_task)])
def test_it_learns_short_sequences_through_the_bottleneck(cell: str, task: Task) -> None:
    assert learned(shape(64, attention="none", cell=cell), task, 14, 3, updates=400) == 1.0
