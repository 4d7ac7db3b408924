"""The time that regularisers and averages add to an update of the preset tiny, on one thread.

    python benchmarks/regularisers.py [--rounds 12]

Every side updates a model of its own on the same batches of Multi30k, in turns, in one process.
Times are those of the processor, so that other work on the machine affects them less. The report,
in Markdown, has the median of the rounds and the ratio to the side without any of them.
"""

import argparse
import statistics
import time
from typing import Any

import numpy as np
import torch
from harness import data_folder

from crosshead.models.registry import build_model
from crosshead.recipe.compose import compose
from crosshead.recipe.train import TrainConfig
from crosshead.system.processor import instruction_sets
from crosshead.tasks.registry import task_of
from crosshead.text.batching import Pairs
from crosshead.text.parallel.examples import Example
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.training.distributed import ALONE
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.updater import Updater

PAIRS, VOCABULARY = 3000, 8000
SIDES: dict[str, dict[str, Any]] = {
    "none": {},
    "subword sampling 0.1": {},
    "word dropout 0.1": {"word_dropout": 0.1},
    "moving average": {"ema": 0.999},
    "R-Drop": {"consistency": "r-drop"},
    "SimCut": {"consistency": "simcut"},
}
"""The settings of each side; subword sampling changes its text instead."""


def examples(vocabulary: int) -> dict[str, list[Example]]:
    """The first pairs of the training set, with the usual pieces and with sampled pieces."""
    folder = data_folder() / "multi30k" / "raw"
    sides = [(folder / f"train.{end}").read_text().splitlines() for end in ("en", "de")]
    config = TokenizerConfig(vocab_size=vocabulary, sampling=0.1)
    tokenizer = train_tokenizer(config, sides[0] + sides[1])
    rng = np.random.default_rng(1)
    pairs = list(zip(*(side[:PAIRS] for side in sides), strict=True))
    return {
        name: [(tokenizer.encode(s, draws), tokenizer.encode(t, draws)) for s, t in pairs]
        for name, draws in (("usual", None), ("sampled", rng))
    }


def updater(settings: dict[str, Any], vocabulary: int) -> Updater:
    """An updater of a new model of the preset tiny."""
    recipe = compose("tiny", {"data": {"source": "s", "target": "t"}})
    values = {**recipe.train.model_dump(), **settings, "max_updates": 1}
    config = TrainConfig.model_validate({**values, "precision": "float32"})
    torch.manual_seed(1)
    model = build_model(recipe.model, vocabulary, vocabulary)
    optimizer, progress = Optimizer(model, config), Progress()
    return Updater(task_of(recipe), model, optimizer, config, progress, print, ALONE)


def main(rounds: int, vocabulary: int) -> None:
    """Measure all sides in turns and print a table."""
    torch.set_num_threads(1)
    texts = examples(vocabulary)
    made = {name: updater(settings, vocabulary) for name, settings in SIDES.items()}
    epochs = {name: Pairs(texts["sampled" if "sampling" in name else "usual"]) for name in SIDES}
    # The same sentences for all sides: sampled pieces are more tokens of the same text.
    plan = Pairs(texts["usual"]).plan(made["none"].config.batch_tokens, 1, 0)
    seconds: dict[str, list[float]] = {name: [] for name in SIDES}
    for number in range(rounds + 1):
        rows = plan[number % len(plan)]
        for name in list(SIDES) if number % 2 else reversed(SIDES):
            began = time.process_time()
            made[name].gradients(epochs[name], rows)
            made[name].optimizer.step(0.001)
            if number:  # the first round chooses kernels
                seconds[name].append(time.process_time() - began)
    print(f"{', '.join(instruction_sets()) or 'no'} instruction sets; float32, one thread,")
    print(f"{made['none'].config.batch_tokens:,} tokens a batch, {rounds} rounds\n")
    print(
        "| side | seconds of the processor for an update | ratio by round: median, least, largest |"
    )
    print("|---|---|---|")
    for name, times in seconds.items():
        ratios = [a / b for a, b in zip(times, seconds["none"], strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"| {name} | {statistics.median(times):.3f} | {spread} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=12, help="Rounds to measure.")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY, help="Pieces of the BPE.")
    given = parser.parse_args()
    main(given.rounds, given.vocabulary)
