import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import greedy_search
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.validation import Validation
from crosshead.text.batching import Example, collate
from crosshead.training.context import Context, MainProcess
from crosshead.training.loop import fit
from crosshead.training.optimizer import Optimizer
from crosshead.vocabulary import BOS, EOS, PAD
from tests.sequences import copy_task, reverse_task
from tests.training.setups import setup_of

VOCABULARY, LONGEST = 9, 5
POST_NORM = TransformerConfig(
    encoder_layers=1, decoder_layers=1, d_model=64, d_ff=128, heads=4, dropout=0.0
)
PRE_NORM = POST_NORM.model_copy(update={"norm": "pre", "positions": "sinusoidal-halves"})


@pytest.fixture(autouse=True)
def _no_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)


def exact_match(model: Transformer, examples: list[Example]) -> float:
    """The share of examples whose greedy output is the target to the last token."""
    model.eval()
    batch = collate(examples, range(len(examples)))
    limits = torch.full((len(examples),), LONGEST + 5)
    found = greedy_search(model, batch.source, limits, Specials(BOS, EOS, (PAD, BOS)), 0.0)
    pairs = zip(found, examples, strict=True)
    return sum(best[0].tokens == list(target) for best, (_, target) in pairs) / len(examples)


def learned(
    shape: TransformerConfig,
    task: Callable[[int, int, int, int], list[Example]],
    directory: Path,
    seed: int,
) -> float:
    """The exact match on sequences that training did not show."""
    examples = task(5000, VOCABULARY, LONGEST, seed)
    train, rest = examples[:4400], examples[4400:]
    shown = {tuple(source) for source, _ in train}
    test = [example for example in rest if tuple(example[0]) not in shown]
    assert len(test) > 100
    config = TrainConfig(
        max_updates=1200, learning_rate=0.003, warmup=50, schedule="cosine", batch_tokens=800,
        seed=seed, valid_every=10_000, average=0, label_smoothing=0.0,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = Transformer(shape, VOCABULARY, VOCABULARY)
    optimizer = Optimizer(model, config)
    checkpoints = directory / "checkpoints"
    main = MainProcess(
        lambda weights: Validation({"loss": 0.0, "nll": 0.0, "bleu": 0.0}),
        checkpoints,
    )
    fit(
        setup_of(
            config, context=Context(main=main), model=model, optimizer=optimizer, examples=train
        )
    )
    return exact_match(model, test)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("task", "shape"),
    [
        pytest.param(copy_task, PRE_NORM, id="copy, pre-norm"),
        pytest.param(reverse_task, POST_NORM, id="reverse, post-norm"),
    ],
)
def test_a_transformer_learns(
    task: Callable[..., list[Example]], shape: TransformerConfig, seed: int, tmp_path: Path
) -> None:
    """Within 1,200 updates of the training loop: 450 were enough for one seed of two."""
    assert learned(shape, task, tmp_path, seed) == 1.0
