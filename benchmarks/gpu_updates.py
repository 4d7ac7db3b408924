"""How long an update takes on a GPU, with and without CUDA graphs: see README.md.

Two runs of one recipe take turns on the same batches of Multi30k English-German. One replays its
updates, the other starts every kernel by itself. The first updates, in which graphs are recorded,
are timed apart.
"""

import argparse
import statistics
import time
from dataclasses import dataclass

import torch
from harness import data_folder, machine, progress, spread, table
from torch.profiler import ProfilerActivity, profile

from crosshead.models.registry import build_model
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.system.devices import choose_device
from crosshead.tasks.registry import task_of
from crosshead.text.batching import Pairs
from crosshead.text.parallel.corpora import read_pairs
from crosshead.text.parallel.filters import keep_pairs
from crosshead.text.parallel.section import DataConfig
from crosshead.text.tokenizers import train_tokenizer
from crosshead.training.distributed import ALONE
from crosshead.training.hardware import choose_precision
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.schedule import learning_rate
from crosshead.training.updater import Updater

PROFILED = 20
"""Updates whose kernels are counted."""


@dataclass
class Run:
    """A run, and its position in the data."""

    updater: Updater
    recipe: Recipe
    pairs: Pairs
    done: int = 0

    def updates(self, count: int) -> tuple[float, float]:
        """The seconds an update takes, and the loss a token, in the next updates."""
        losses = []
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            train, progress = self.recipe.train, self.updater.progress
            plan = self.pairs.plan(train.batch_tokens, train.seed, progress.epoch)
            rows = plan[progress.batch]
            progress.epoch, progress.batch = (
                (progress.epoch, progress.batch + 1)
                if progress.batch + 1 < len(plan)
                else (progress.epoch + 1, 0)
            )
            progress.update += 1
            sums, tokens = self.updater.gradients(self.pairs, rows)
            width = self.recipe.model.d_model
            self.updater.optimizer.step(learning_rate(train, width, progress.update, 0.0))
            losses.append(sums["loss"] / tokens)
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / count, statistics.fmean(losses)


def main() -> None:
    options = _options()
    print("# Updates on a GPU\n")
    print(machine())
    print(
        f"- {torch.cuda.get_device_name()}, {choose_precision('auto', choose_device('cuda'))[1]}\n"
    )
    for size in options.sizes:
        _compare(size, options)


def _compare(size: str, options: argparse.Namespace) -> None:
    names = ["replayed", "kernel by kernel"]
    runs = {name: _run(size, name == names[0], options) for name in names}
    first = {name: run.updates(options.first) for name, run in runs.items()}
    progress(f"{size}: the first {options.first} updates are done")
    taken: dict[str, list[float]] = {name: [] for name in names}
    losses = {}
    for number in range(options.rounds):
        for name in names[:: 1 if number % 2 else -1]:
            seconds, losses[name] = runs[name].updates(options.updates)
            taken[name].append(1000 * seconds)
    rows = []
    for name in names:
        kernels, busy = _profiled(runs[name])
        rows.append(
            [name, spread(taken[name], 1), f"{1000 * first[name][0]:.1f}", f"{kernels:,.0f}",
             f"{busy:.1f}", f"{losses[name]:.3f}"]
        )  # fmt: skip
    header = [
        "updates", "ms each", f"ms each of the first {options.first}", "kernels", "ms of kernels",
        "loss a token in the last round",
    ]  # fmt: skip
    tokens = (
        compose(size, {"train": {}}).train.batch_tokens if not options.tokens else options.tokens
    )
    print(f"## {size}, batches of {tokens:,} tokens\n")
    print(table(header, rows))
    ratios = [b / a for a, b in zip(taken[names[0]], taken[names[1]], strict=True)]
    print(f"{names[1]} / {names[0]}: **{spread(ratios, 2)}**\n", flush=True)


def _run(size: str, replays: bool, options: argparse.Namespace) -> Run:
    """A run that has not begun."""
    raw = data_folder() / "multi30k" / "raw"
    data = DataConfig(source=[str(raw / "train.en")], target=[str(raw / "train.de")])
    train = {"batch_tokens": options.tokens} if options.tokens else {}
    train |= {"cuda_graphs": replays}
    recipe = compose(size, {"tokenizer": {"vocab_size": 8000}, "train": train})
    text = read_pairs(data)
    tokenizer = train_tokenizer(recipe.tokenizer, [*text.source, *text.target])
    pairs = Pairs(keep_pairs(text, data, tokenizer, tokenizer).examples, recipe.model.start_token)
    torch.manual_seed(recipe.train.seed)
    device = choose_device("cuda")
    vocabulary = tokenizer.vocab_size
    model = build_model(recipe.model, vocabulary, vocabulary)
    model.to(device, choose_precision("auto", device)[0])
    updater = Updater(
        task_of(recipe), model, Optimizer(model, recipe.train), recipe.train, Progress(), progress,
        ALONE, 1,
    )  # fmt: skip
    return Run(updater, recipe, pairs)


def _profiled(run: Run) -> tuple[float, float]:
    """The kernels and copies of an update, and the milliseconds that they take together."""
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        run.updates(PROFILED)
    events = [each for each in found.events() if each.device_type.name == "CUDA"]
    busy = sum(each.device_time for each in events) / 1000
    return len(events) / PROFILED, busy / PROFILED


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", default=["small"], help="presets (default: small)")
    parser.add_argument("--first", type=int, default=600, help="updates before the rounds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=50, help="updates of a round")
    parser.add_argument("--tokens", type=int, help="batch tokens (default: those of the preset)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
