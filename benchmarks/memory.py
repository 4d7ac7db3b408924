"""What training takes of memory and time, by the ways to take less of it: see README.md.

Each form trains in a process of its own, on batches of copied random sentences, and all take turns.
Parts are computed side by side where `crosshead train` would.
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

from crosshead.data.batching import Pairs
from crosshead.models.base import Shape
from crosshead.models.registry import build_model
from crosshead.recipe.recipe import Recipe
from crosshead.system.devices import hold_kernels
from crosshead.tasks.recipes import compose
from crosshead.tasks.registry import task_of
from crosshead.training.checkpoint import Progress
from crosshead.training.distributed import ALONE
from crosshead.training.hardware import Machine
from crosshead.training.memory import (
    batch_bytes,
    memory_estimate,
    recompute_activations,
)
from crosshead.training.optimizer import Optimizer
from crosshead.training.updater import Updater

VOCABULARY, UPDATES = 8000, 3

BATCHES = [(128, 32), (1, 100), (1, 1000), (1, 2000), (1, 4000)]
"""Rows and positions, of source and target."""

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
    batches = {
        f"{rows} x {length}, {precision}": {
            **common, "size": "tiny", "threads": 1, "tokens": rows * length, "length": length,
            "precision": precision,
        }
        for precision, (rows, length) in itertools.product(("float32", "bfloat16"), options.batches)
    }  # fmt: skip
    print(
        "What is counted beforehand, at `tiny` on one thread: the process as it is estimated, and "
        "what is certain to be held of a batch, beside what memory grows by.\n"
    )
    _report_counted(batches)


def _report(answers: dict[str, list[dict[str, Any]]]) -> None:
    """A row for each form: its name, peak memory and seconds."""
    rows = []
    for name, found in answers.items():
        seconds = [each["seconds"] / UPDATES for each in found]
        rows.append([name, mebibytes(found[-1]["peak_bytes"]), spread(seconds, 2)])
    print(table(["form", "peak memory, MiB", "seconds an update"], rows), flush=True)


def _report_counted(batches: dict[str, Settings]) -> None:
    """A row for each batch: what its process and it took, and what is counted of each."""
    rows = []
    for name, settings in batches.items():
        [answer] = _measured({name: settings}, 1)[name]
        if answer["peak_bytes"] is None:
            continue
        recipe, machine = recipe_of(settings), machine_of(settings)
        shape = Shape(settings["tokens"] // settings["length"], *[settings["length"]] * 2)
        process = answer["built_bytes"] + answer["peak_bytes"]
        estimated = memory_estimate(recipe, shape, answer["parameters"], machine)
        certain = batch_bytes(recipe.model, shape, machine, recompute=False)
        rows.append(
            [
                name, mebibytes(process), mebibytes(estimated), mebibytes(answer["peak_bytes"]),
                mebibytes(certain), f"{certain / answer['peak_bytes']:.2f}",
            ]
        )  # fmt: skip
    header = [
        "rows x positions",
        "process, MiB",
        "estimated",
        "growth, MiB",
        "certain",
        "of growth",
    ]
    print(table(header, rows))


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
    chosen = [f"accumulate={settings['accumulate']}", f"train.batch_tokens={settings['tokens']}"]
    chosen.append(f"data.max_length={settings['length'] - 1}")
    chosen.append(f"recompute={str(settings['recompute']).lower()}")
    if settings["layers"]:
        chosen += [f"{side}_layers={settings['layers']}" for side in ("encoder", "decoder")]
    return compose(settings["size"], assignments=chosen)


def machine_of(settings: Settings) -> Machine:
    """The processor, with as many threads, in the precision of the settings."""
    precision = getattr(torch, settings["precision"])
    return Machine(torch.device("cpu"), settings["threads"], precision, "as asked")


def start(settings: Settings, memory: PeakMemory) -> Answer:
    """A model that trains as the settings say."""
    hold_kernels()
    recipe, machine = recipe_of(settings), machine_of(settings)
    torch.manual_seed(1)
    model = build_model(recipe.model, VOCABULARY, VOCABULARY)
    model.to(machine.dtype)
    if recipe.train.recompute:
        recompute_activations(model)
    optimizer, progress = Optimizer(model, recipe.train), Progress(parts=recipe.train.accumulate)
    parallel = machine.parallel_microbatches(recipe.train)
    updater = Updater(
        task_of(recipe), model, optimizer, recipe.train, progress, print, ALONE, parallel
    )
    count = settings["tokens"] // settings["length"]
    rng = np.random.default_rng(1)
    ids = rng.integers(4, VOCABULARY, (count, settings["length"] - 1)).tolist()
    pairs = Pairs(list(zip(ids, ids, strict=True)))
    memory.reset()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        for _ in range(request["updates"]):
            updater.take(pairs, np.arange(count), 1e-4)
            progress.update += 1
        return {
            "seconds": time.perf_counter() - began,
            "parameters": optimizer.size(),
            "built_bytes": memory.baseline,
        }

    return answer


def rows_by_positions(text: str) -> tuple[int, int]:
    """The numbers of `128x32`."""
    rows, positions = map(int, text.split("x"))
    return rows, positions


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    add = parser.add_argument
    add("--size", choices=("tiny", "small", "base"), default="small")
    add("--tokens", type=int, default=4096, help="of a batch (%(default)s)")
    add("--length", type=int, default=32, help="of a sentence, its end included (%(default)s)")
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=5, help="turns of each form (%(default)s)")
    add("--depths", type=int, nargs="+", default=[2, 4, 8, 16], help="layers of each stack")
    add("--batches", type=rows_by_positions, nargs="+", default=BATCHES, metavar="ROWSxPOSITIONS")
    return parser.parse_args()


if __name__ == "__main__":
    serve(start) if sys.argv[1:] == ["--worker"] else main()
