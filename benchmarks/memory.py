"""What training takes of memory and time, by the ways to take less of it: see README.md.

Each form trains in a process of its own, on batches of copied random sentences, and all take turns.
"""

import argparse
import itertools
import sys
import time
from typing import Any

import numpy as np
import torch
from harness import (
    Answer,
    PeakMemory,
    Settings,
    Worker,
    machine,
    mebibytes,
    serve,
    spread,
    table,
    take_turns,
)

from crosshead.bundle import build_model
from crosshead.devices import hold_kernels
from crosshead.training.checkpoint import Progress
from crosshead.training.distributed import ALONE
from crosshead.training.memory import recompute_activations
from crosshead.training.optimizer import Optimizer
from crosshead.training.recipe import compose
from crosshead.training.updater import Updater

VOCABULARY = 8000

FORMS: dict[str, Settings] = {
    "plain": {},
    "accumulate = 4": {"accumulate": 4},
    "recompute": {"recompute": True},
    "bfloat16": {"precision": "bfloat16"},
    "accumulate = 4, recompute": {"accumulate": 4, "recompute": True},
    "all three": {"accumulate": 4, "recompute": True, "precision": "bfloat16"},
}


def main() -> None:
    options = _options()
    print("# Memory of training\n")
    print(machine(), flush=True)
    common: Settings = {
        "size": options.size, "tokens": options.tokens, "length": options.length, "layers": 0,
        "threads": options.threads, "accumulate": 1, "recompute": False, "precision": "float32",
    }  # fmt: skip
    print(
        f"`{options.size}`, a vocabulary of {VOCABULARY:,}, batches of {options.tokens:,} tokens "
        f"in sentences of {options.length}, {options.threads} threads. Memory is what training "
        "adds to the process at its peak once the model is built.\n"
    )
    rows = _measured({name: {**common, **form} for name, form in FORMS.items()}, options.rounds)
    print(table(["form", "peak memory, MiB", "seconds an update"], rows), flush=True)
    deep = {
        f"{layers}+{layers} layers{', recompute' if recompute else ''}": {
            **common, "layers": layers, "recompute": recompute,
        }
        for layers, recompute in itertools.product(options.depths, (False, True))
    }  # fmt: skip
    print("By depth:\n")
    print(table(["form", "peak memory, MiB", "seconds an update"], _measured(deep, 1)))


def _measured(forms: dict[str, Settings], rounds: int) -> list[list[str]]:
    """A row for each form: its name, peak memory and seconds."""
    rows = []
    workers = {name: Worker(settings) for name, settings in forms.items()}
    for worker in workers.values():
        worker.ask(updates=1)
    answers = take_turns(workers, rounds, lambda number: {"updates": 3})
    for worker in workers.values():
        worker.close()
    for name, found in answers.items():
        seconds = [each["seconds"] / 3 for each in found]
        rows.append([name, mebibytes(found[-1]["peak_bytes"]), spread(seconds, 2)])
    return rows


def start(settings: Settings, memory: PeakMemory) -> Answer:
    """A model that trains as the settings say."""
    hold_kernels()
    chosen = [f"accumulate={settings['accumulate']}"]
    if settings["layers"]:
        chosen += [f"{side}_layers={settings['layers']}" for side in ("encoder", "decoder")]
    recipe = compose(settings["size"], assignments=chosen)
    torch.manual_seed(1)
    model = build_model(recipe.model, VOCABULARY, VOCABULARY)
    model.to(getattr(torch, settings["precision"]))
    if settings["recompute"]:
        recompute_activations(model)
    optimizer, progress = Optimizer(model, recipe.train), Progress(parts=settings["accumulate"])
    updater = Updater(model, optimizer, recipe.train, progress, print, ALONE)
    count = settings["tokens"] // settings["length"]
    rng = np.random.default_rng(1)
    ids = rng.integers(4, VOCABULARY, (count, settings["length"] - 1)).tolist()
    examples = list(zip(ids, ids, strict=True))
    memory.reset()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        for _ in range(request["updates"]):
            updater.take(examples, np.arange(count), 1e-4)
            progress.update += 1
        return {"seconds": time.perf_counter() - began}

    return answer


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    add = parser.add_argument
    add("--size", choices=("tiny", "small", "base"), default="small")
    add("--tokens", type=int, default=4096, help="of a batch (%(default)s)")
    add("--length", type=int, default=32, help="of a sentence, its end included (%(default)s)")
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=5, help="turns of each form (%(default)s)")
    add("--depths", type=int, nargs="+", default=[2, 4, 8, 16], help="layers of each stack")
    return parser.parse_args()


if __name__ == "__main__":
    serve(start) if sys.argv[1:] == ["--worker"] else main()
