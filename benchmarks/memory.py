"""What training takes of memory and time, by the ways to take less of it: see README.md.

Each form trains in a process of its own, on batches of random sentences, and all take turns. Parts
are computed side by side where `crosshead train` would.
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

from crosshead.models.registry import build_model
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.system.devices import hold_kernels
from crosshead.tasks.corpus import Epoch
from crosshead.tasks.registry import task_of
from crosshead.text.batching import Pairs
from crosshead.training.distributed import ALONE
from crosshead.training.hardware import Machine
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.setup import recompute_activations
from crosshead.training.updater import Updater

VOCABULARY, UPDATES = 8000, 3

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
        "size": options.size, "tokens": options.tokens,
        "length": options.length, "layers": 0, "threads": options.threads, "accumulate": 1,
        "recompute": False, "precision": "float32",
    }  # fmt: skip
    print(
        f"`{options.size}`, a vocabulary of {VOCABULARY:,}, batches of {options.tokens:,} tokens "
        f"in sentences of {options.length}, {options.threads} threads. Memory is what training "
        "adds to the process at its peak once the model is built.\n"
    )
    forms = {name: {**common, **form} for name, form in FORMS.items()}
    _report(_measured(forms, options.rounds))
    deep = {
        f"{layers}+{layers} layers{', recompute' if recompute else ''}": {
            **common, "layers": layers, "recompute": recompute,
        }
        for layers, recompute in itertools.product(options.depths, (False, True))
    }  # fmt: skip
    print("By depth:\n")
    _report(_measured(deep, 1))


def _report(answers: dict[str, list[dict[str, Any]]]) -> None:
    """A row for each form: its name, peak memory and seconds."""
    rows = []
    for name, found in answers.items():
        seconds = [each["seconds"] / UPDATES for each in found]
        rows.append([name, mebibytes(found[-1]["peak_bytes"]), spread(seconds, 2)])
    print(table(["form", "peak memory, MiB", "seconds an update"], rows), flush=True)


def _measured(forms: dict[str, Settings], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """What each form's worker answers, round by round."""
    workers = {name: Worker(settings) for name, settings in forms.items()}
    for worker in workers.values():
        worker.ask(updates=1)
    answers = take_turns(workers, rounds, lambda number: {"updates": UPDATES})
    for worker in workers.values():
        worker.close()
    return answers


def recipe_of(settings: Settings) -> Recipe:
    """The recipe that the settings stand for."""
    chosen = [
        f"accumulate={settings['accumulate']}", f"train.batch_tokens={settings['tokens']}",
        f"data.max_length={settings['length'] - 1}",
        f"recompute={str(settings['recompute']).lower()}",
    ]  # fmt: skip
    if settings["layers"]:
        chosen += [f"{side}_layers={settings['layers']}" for side in ("encoder", "decoder")]
    return compose(settings["size"], assignments=chosen)


def machine_of(settings: Settings) -> Machine:
    """The processor, with as many threads, in the precision of the settings."""
    precision = getattr(torch, settings["precision"])
    return Machine(torch.device("cpu"), settings["threads"], precision, "as asked")


def epoch_of(settings: Settings) -> Epoch:
    """A batch of rows of random sentences."""
    length = settings["length"]
    count = settings["tokens"] // length
    ids = np.random.default_rng(1).integers(4, VOCABULARY, (count, length - 1)).tolist()
    return Pairs([(each, each) for each in ids])


def start(settings: Settings, memory: PeakMemory) -> Answer:
    """A model that trains as the settings say."""
    hold_kernels()
    recipe, machine = recipe_of(settings), machine_of(settings)
    torch.manual_seed(1)
    model = build_model(recipe.model, VOCABULARY, VOCABULARY).to(machine.dtype)
    epoch = epoch_of(settings)
    if recipe.train.recompute:
        recompute_activations(model)
    optimizer, progress = (
        Optimizer(model, recipe.train),
        Progress(microbatches=recipe.train.accumulate),
    )
    parallel = machine.parallel_microbatches(recipe.train)
    updater = Updater(
        task_of(recipe), model, optimizer, recipe.train, progress, print, ALONE, parallel
    )
    rows = np.arange(settings["tokens"] // settings["length"])
    memory.reset()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        for _ in range(request["updates"]):
            updater.gradients(epoch, rows)
            updater.optimizer.step(1e-4, updater.replicas)
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
