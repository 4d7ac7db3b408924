"""What each of several processes holds, by `train.sharded`; torchrun starts it: see README.md.

They make a few small updates on random sentences, so that weights, and what hangs on them, are what
memory is for.
"""

import argparse
import time

import numpy as np
import torch
from harness import PeakMemory, mebibytes

from crosshead.models.registry import build_model
from crosshead.recipe.compose import compose
from crosshead.tasks.registry import task_of
from crosshead.text.batching import Pairs
from crosshead.training.distributed import World, joined_process_group, shard
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.updater import Updater

VOCABULARY, SENTENCES, LENGTH, UPDATES = 8000, 16, 32, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(";")[0])
    parser.add_argument("--size", choices=("tiny", "small", "base"), default="base")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--sharded", action="store_true")
    options = parser.parse_args()
    with joined_process_group() as world:
        measure(world, options.size, options.precision, options.sharded)


def measure(world: World, size: str, precision: str, sharded: bool) -> None:
    """Print what this process held at most, beyond its libraries, and how long an update took."""
    memory = PeakMemory()
    memory.reset()
    recipe = compose(size, assignments=[f"sharded={str(sharded).lower()}"])
    torch.manual_seed(1)
    model = build_model(recipe.model, VOCABULARY, VOCABULARY).to(getattr(torch, precision))
    if sharded and world.size > 1:
        shard(model)
    optimizer, progress = Optimizer(model, recipe.train), Progress()
    updater = Updater(task_of(recipe), model, optimizer, recipe.train, progress, print, world)
    ids = np.random.default_rng(1).integers(4, VOCABULARY, (SENTENCES, LENGTH - 1)).tolist()
    pairs, seconds = Pairs(list(zip(ids, ids, strict=True))), []
    for _ in range(UPDATES):
        began = time.perf_counter()
        updater.gradients(pairs, np.arange(SENTENCES))
        optimizer.step(1e-4)
        seconds.append(time.perf_counter() - began)
    print(
        f"process {world.rank} of {world.size}, {'sharded' if sharded else 'replicated'}, "
        f"{optimizer.size() / 1e6:.1f} M parameters, {precision}: "
        f"{mebibytes(memory.above_baseline())} MiB at most, "
        f"{np.median(seconds[1:]):.2f} s an update",
        flush=True,
    )


if __name__ == "__main__":
    main()
