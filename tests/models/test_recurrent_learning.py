"""Every kind of recurrent model learns to copy or to reverse sequences that it was not shown."""

from collections.abc import Callable

import pytest
import torch

from crosshead.config import validate
from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import greedy_search
from crosshead.layers.loss import fused_cross_entropy
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.text.batching import Example, collate
from crosshead.vocabulary import BOS, EOS, PAD
from tests.learning import SEEDS, learns
from tests.parameters import mostly_slow
from tests.sequences import copy_task, reverse_task

Task = Callable[[int, int, int, int], list[Example]]
MOST = 1500
"""Updates."""


def exact_match(model: Recurrent, examples: list[Example]) -> float:
    """The share of examples whose greedy output is the target to the last token."""
    source = collate(examples, range(len(examples))).source
    limits = torch.full((len(examples),), 10)
    with torch.inference_mode():
        found = greedy_search(model.eval(), source, limits, Specials(BOS, EOS, (PAD, BOS)), 0.0)
    model.train()
    pairs = zip(found, examples, strict=True)
    return sum(best[0].tokens == list(target) for best, (_, target) in pairs) / len(examples)


def learns_unseen(
    config: RecurrentConfig,
    task: Task,
    seed: int,
    *,
    vocabulary: int = 7,
    longest: int = 6,
    share: float = 1.0,
) -> bool:
    """Train until that share of the sequences that training does not show comes out right."""
    examples = task(6000, vocabulary, longest, 1)
    shown, rest = examples[:5000], examples[5000:]
    seen = {tuple(source) for source, _ in shown}
    test = [example for example in rest if tuple(example[0]) not in seen]
    assert len(test) > 50
    torch.manual_seed(seed)
    model = Recurrent(config, vocabulary, vocabulary)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)

    def update(number: int) -> float:
        optimizer.param_groups[0]["lr"] = 0.64 / config.d_model / (1 + number / 100)
        batch = collate(shown, torch.randint(len(shown), (64,)).tolist())
        features = model.features(batch.source, batch.target_input)
        written = batch.target_output != PAD
        found = fused_cross_entropy(
            features[written], model.projection.weight, None, batch.target_output[written], 0.0
        )
        loss = found.loss / found.count
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return learns(update, lambda: exact_match(model, test) >= share, most=MOST, below=0.05)


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("attention", mostly_slow(ATTENTIVE, ["luong-dot"]))
def test_every_attention_learns(attention: str, seed: int) -> None:
    task, options = ATTENTIVE[attention]
    assert learns_unseen(shape(32, attention=attention, **options), task, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_it_learns_with_input_feeding(seed: int) -> None:
    config = shape(32, attention="luong-general", input_feeding=True)
    assert learns_unseen(config, copy_task, seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("cell", "task"),
    mostly_slow([("lstm", reverse_task), ("gru", copy_task)], [("lstm", reverse_task)]),
)
def test_it_learns_short_sequences_through_the_bottleneck(cell: str, task: Task, seed: int) -> None:
    """The model learns its sequences by heart before the rule, so a few unseen ones stay wrong."""
    config = shape(64, attention="none", cell=cell)
    assert learns_unseen(config, task, seed, vocabulary=40, longest=2, share=0.95)
