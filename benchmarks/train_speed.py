"""How fast crosshead trains, beside Hugging Face's Marian of the same shape: see README.md.

Both get the same batches of Multi30k English-German in the same order, begin with the same
weights, and update with Adam after clipping. Each runs at the precision and number of threads that
a short calibration finds best for it; then they take turns. Counted are real target tokens, without
padding.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from harness import (
    CORES,
    Answer,
    PeakMemory,
    Settings,
    Worker,
    choose_settings,
    data_folder,
    describe,
    machine,
    mebibytes,
    progress,
    serve,
    spread,
    table,
    take_turns,
)
from safetensors import safe_open
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from crosshead.models.registry import build_model
from crosshead.models.transformer import Transformer
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.system.devices import hold_kernels
from crosshead.tasks.registry import task_of
from crosshead.tasks.token_loss import token_loss
from crosshead.text.batching import (
    Batch,
    Example,
    Pairs,
    collate,
    example_lengths,
    padding_share,
    plan_batches,
)
from crosshead.text.parallel.corpora import read_pairs
from crosshead.text.parallel.filters import keep_pairs
from crosshead.text.parallel.pairs import ParallelText
from crosshead.text.parallel.section import DataConfig
from crosshead.text.tokenizers import train_tokenizer
from crosshead.training.distributed import ALONE
from crosshead.training.hardware import Machine, choose_precision, matrix_rates
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.schedule import learning_rate
from crosshead.training.updater import Updater
from crosshead.vocabulary import EOS, PAD

CALIBRATION = 8
"""Updates that a setting is judged by, after as many to warm up."""

PARTS = ("source", "input", "output")

OURS, MARIAN, NARROW = "crosshead", "Marian", "Marian, bfloat16 weights"

ONE_BY_ONE = "crosshead, microbatches one by one"
"""Ours again, with the settings found for it: what computing microbatches in parallel is worth."""

DEFAULTS: dict[str, Settings] = {
    OURS: {"precision": "float32", "threads": CORES},
    # Without float32 weights it is faster, but small updates are lost: a side of its own, whose
    # losses tell.
    MARIAN: {"precision": "float32", "threads": CORES, "attention": "sdpa"},
    NARROW: {"precision": "bfloat16", "threads": CORES, "attention": "eager"},
}
CHOICES: dict[str, dict[str, list[Any]]] = {
    OURS: {"precision": ["float32", "bfloat16"], "threads": [1, CORES]},
    # autocast computes in bfloat16 with float32 weights.
    MARIAN: {
        "precision": ["float32", "autocast"],
        "attention": ["sdpa", "eager"],
        "threads": [1, CORES],
    },
    NARROW: {"attention": ["sdpa", "eager"], "threads": [1, CORES]},
}


@dataclass(frozen=True)
class Side:
    """What is measured."""

    update: Callable[[Any, float], float]
    """One update at a learning rate; the mean loss of a target token before it."""

    loss: Callable[[Batch], float]
    """The mean loss of a target token, without dropout."""

    prepared: Callable[[Batch], Any] = lambda batch: batch
    """What `update` takes of a batch."""

    operations: Callable[[Batch], int] = lambda batch: 0
    """Floating-point operations in the matrix products of an update, those for padding included."""


def main() -> None:
    options = _options()
    print("# Training speed\n")
    print(machine(), flush=True)
    dtype, why = choose_precision("auto", torch.device("cpu"))
    name = str(dtype).removeprefix("torch.")
    print(f"crosshead's `precision = 'auto'` takes {name} here ({why}).\n")
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "batches.safetensors"
        print(_write_batches(files, options.pairs, options.vocabulary), flush=True)
        for size in options.sizes:
            print(_compare(size, files, options), flush=True)


def _compare(size: str, files: Path, options: argparse.Namespace) -> str:
    """The measurements of one size as Markdown."""
    chosen, calibration = {}, []
    for side, defaults in DEFAULTS.items():
        settings = {"side": side, "size": size, "files": str(files), **defaults}
        if options.calibrate:
            settings = choose_settings(settings, CHOICES[side], _rate, calibration)
        chosen[side] = settings
    chosen[ONE_BY_ONE] = {**chosen[OURS], "side": ONE_BY_ONE}
    workers = {side: Worker(settings) for side, settings in chosen.items()}
    starts = {
        side: worker.ask(do="loss", first=0, count=1)["loss"] for side, worker in workers.items()
    }
    count = options.updates
    for worker in workers.values():
        worker.ask(do="update", first=0, count=min(CALIBRATION, count))
    answers = take_turns(
        workers, options.rounds, lambda n: {"do": "update", "first": n * count, "count": count}
    )
    operations = workers[OURS].ask(do="operations", first=0, count=count)["operations"]
    for worker in workers.values():
        worker.close()
    rates = {s: [a["tokens"] / a["seconds"] for a in found] for s, found in answers.items()}
    rows = [
        [side, describe(chosen[side]), spread(rates[side]),
         mebibytes(answers[side][-1]["peak_bytes"])]
        for side in chosen
    ]  # fmt: skip
    lines = [
        f"## {size}\n",
        table(["side", "settings", "target tokens/s", "peak memory, MiB"], rows),
        f"Round by round, {options.rounds} rounds of {count} updates; median, least and largest:\n",
    ]
    for rival in (MARIAN, NARROW, ONE_BY_ONE):
        ratios = [a / b for a, b in zip(rates[OURS], rates[rival], strict=True)]
        lines.append(f"- {OURS} / {rival}: **{spread(ratios, 2)}**")
    lines += ["", _share_of_peak(operations, rates[OURS], chosen[OURS]["precision"])]
    lines += [f"Loss a token of the first batch, before any update: {_listed(starts, 4)}.\n"]
    if options.loss:
        losses = {side: _loss_after(chosen[side], options.loss) for side in DEFAULTS}
        lines.append(
            f"Loss a token over the last tenth of {options.loss} updates: {_listed(losses, 3)}.\n"
        )
    if calibration:
        lines.append(table(["calibration", "settings", "target tokens/s"], calibration))
    return "\n".join(lines)


def _share_of_peak(operations: float, rates: list[float], precision: str) -> str:
    """How near to the rate of one large product the median comes, with so many a target token."""
    threads = torch.get_num_threads()
    peak = getattr(matrix_rates(torch.device("cpu"), threads, seconds=2.0), precision)
    reached = statistics.median(rates) * operations / 1e9
    return (
        f"{OURS}'s updates make {operations / 1e6:.1f} million floating-point operations a target "
        f"token in matrix products, {reached:.0f} GFLOP/s: **{reached / peak:.0%}** of the "
        f"{peak:.0f} of products (4096 x 512) (512 x 512) in {precision}, measured after the "
        "rounds.\n"
    )


def _listed(losses: dict[str, float], digits: int) -> str:
    return ", ".join(f"{side} {loss:.{digits}f}" for side, loss in losses.items())


def _rate(settings: Settings) -> float:
    """Target tokens a second with these settings, in a few updates."""
    worker = Worker(settings)
    worker.ask(do="update", first=0, count=CALIBRATION)
    answer = worker.ask(do="update", first=CALIBRATION, count=CALIBRATION)
    worker.close()
    return float(answer["tokens"] / answer["seconds"])


def _loss_after(settings: Settings, updates: int) -> float:
    """The mean loss over the last tenth of so many updates from the beginning."""
    worker = Worker(settings)
    last = max(1, updates // 10)
    worker.ask(do="update", first=0, count=updates - last)
    answer = worker.ask(do="update", first=updates - last, count=last)
    worker.close()
    progress(f"{settings['side']}: loss {answer['loss']:.3f} after {updates} updates")
    return float(answer["loss"])


def _write_batches(path: Path, pairs: int, vocabulary: int) -> str:
    """Plan and write the batches that all sides train on; returns what they are, in a sentence."""
    raw = data_folder() / "multi30k" / "raw"
    data = DataConfig(source=[str(raw / "train.en")], target=[str(raw / "train.de")])
    recipe = compose("tiny", {"tokenizer": {"vocab_size": vocabulary}})
    all_of_them = read_pairs(data)
    text = ParallelText(all_of_them.source[:pairs], all_of_them.target[:pairs], all_of_them.origins)
    progress("learning the subwords")
    tokenizer = train_tokenizer(recipe.tokenizer, [*text.source, *text.target])
    examples = keep_pairs(text, data, tokenizer, tokenizer).examples
    lengths = example_lengths(examples)
    plan = plan_batches(lengths, recipe.train.batch_tokens, recipe.train.seed, 0)
    tensors = {"vocabulary": torch.tensor(tokenizer.vocab_size)}
    for number, rows in enumerate(plan):
        batch = collate(examples, rows.tolist(), recipe.model.start_token)
        sides = (batch.source, batch.target_input, batch.target_output)
        tensors |= {f"{number}.{part}": side for part, side in zip(PARTS, sides, strict=True)}
    safetensors.torch.save_file(tensors, path)
    return (
        f"Multi30k English-German, {len(examples):,} pairs, joint BPE of {tokenizer.vocab_size:,}, "
        f"batches of {recipe.train.batch_tokens:,} tokens ({padding_share(lengths, plan):.1%} "
        "padding), the same on both sides; dropout 0.3, label smoothing 0.1, Adam (fused), "
        f"gradients clipped at 1. Peer: Hugging Face transformers {version('transformers')}, "
        "MarianMTModel. Peak memory is what training adds to the process once the model is built.\n"
    )


def start(settings: Settings, memory: PeakMemory) -> Answer:
    """A model that trains as the settings say, for the process of one side."""
    recipe = compose(settings["size"], assignments=["warmup=2000"])
    torch.manual_seed(recipe.train.seed)
    with safe_open(settings["files"], "pt") as tensors:
        vocabulary = int(tensors.get_tensor("vocabulary"))
    side = SIDES[settings["side"]](
        build_model(recipe.model, vocabulary, vocabulary), recipe, settings
    )
    memory.reset()
    updates = 0

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal updates
        batches = _read_batches(settings["files"], request["first"], request["count"])
        if request["do"] == "loss":
            return {"loss": side.loss(batches[0])}
        if request["do"] == "operations":
            made = sum(side.operations(batch) for batch in batches)
            return {"operations": made / sum(batch.count for batch in batches)}
        tokens = [batch.count for batch in batches]
        losses, batches = [], [side.prepared(batch) for batch in batches]
        began = time.perf_counter()
        for batch in batches:
            updates += 1
            rate = learning_rate(recipe.train, recipe.model.d_model, updates, 0.0)
            losses.append(side.update(batch, rate))
        seconds = time.perf_counter() - began
        total = sum(loss * count for loss, count in zip(losses, tokens, strict=True))
        return {"tokens": sum(tokens), "seconds": seconds, "loss": total / max(1, sum(tokens))}

    return answer


def _crosshead(model: Transformer, recipe: Recipe, settings: Settings) -> Side:
    """What the training loop does with the sentences of a batch."""
    hold_kernels()
    config = recipe.train
    dtype = getattr(torch, settings["precision"])
    here = Machine(torch.device("cpu"), settings["threads"], dtype, "")
    model.to(dtype)
    updater = Updater(
        task_of(recipe),
        model,
        Optimizer(model, config),
        config,
        Progress(),
        progress,
        ALONE,
        1 if settings["side"] == ONE_BY_ONE else here.parallel_microbatches(config),
    )

    def update(examples: list[Example], rate: float) -> float:
        model.train()
        updater.progress.update += 1
        pairs = Pairs(examples, recipe.model.start_token)
        sums, count = updater.gradients(pairs, np.arange(len(examples)))
        updater.optimizer.step(rate, updater.replicas)
        return sums["loss"] / count

    def loss(batch: Batch) -> float:
        model.eval()
        with torch.inference_mode():
            sums = token_loss(model, batch, config)
        return float(sums.sums["loss"]) / sums.count

    def operations(batch: Batch) -> int:
        with FlopCounterMode(display=False) as counter:
            token_loss(model.train(), batch, config).sums["loss"].backward()
        updater.optimizer.drop_gradients()
        return int(counter.get_total_flops())

    return Side(update, loss, _examples, operations)


def _examples(batch: Batch) -> list[Example]:
    """The sentences that a batch was put together from."""
    sides = (batch.source.tolist(), batch.target_output.tolist())
    return [(list(s[: s.index(EOS)]), list(t[: t.index(EOS)])) for s, t in zip(*sides, strict=True)]


def _marian(ours: Transformer, recipe: Recipe, settings: Settings) -> Side:
    """The same with Marian: PyTorch's own loss, clipping and fused optimiser around it."""
    from peers import marian_of  # only this side's process needs it

    model = marian_of(ours, settings["attention"])
    if settings["precision"] == "bfloat16":
        model.to(torch.bfloat16)
    config = recipe.train
    adam = torch.optim.AdamW(
        model.parameters(),
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_eps,
        weight_decay=0.0,
        fused=True,
    )

    def mean_loss(batch: Batch) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=settings["precision"] == "autocast"):
            logits = model(
                input_ids=batch.source,
                attention_mask=(batch.source != PAD).long(),
                decoder_input_ids=batch.target_input,
                use_cache=False,
            ).logits
            return F.cross_entropy(
                logits.flatten(0, 1),
                batch.target_output.flatten(),
                ignore_index=PAD,
                label_smoothing=config.label_smoothing,
            )

    def update(batch: Batch, rate: float) -> float:
        model.train()
        loss = mean_loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        adam.param_groups[0]["lr"] = rate
        adam.step()
        adam.zero_grad()
        return float(loss.detach())

    def loss(batch: Batch) -> float:
        model.eval()
        with torch.inference_mode():
            return float(mean_loss(batch))

    return Side(update, loss)


SIDES = {OURS: _crosshead, ONE_BY_ONE: _crosshead, MARIAN: _marian, NARROW: _marian}


def _read_batches(path: str, first: int, count: int) -> list[Batch]:
    """The batches from `first` on; after the last comes the first again."""
    with safe_open(path, "pt") as tensors:
        total = len(tensors.keys()) // 3
        return [
            Batch((source, target_input), target_output)
            for n in range(first, first + count)
            for source, target_input, target_output in [
                [tensors.get_tensor(f"{n % total}.{part}") for part in PARTS]
            ]
        ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    add = parser.add_argument
    add("--sizes", nargs="+", choices=("tiny", "small"), default=["tiny", "small"])
    add("--rounds", type=int, default=5, help="turns of each side (%(default)s)")
    add("--updates", type=int, default=20, help="updates in a turn (%(default)s)")
    add("--loss", type=int, default=0, metavar="N", help="also compare the losses of N updates")
    add("--pairs", type=int, default=29_000, help="sentence pairs to plan with (%(default)s)")
    add("--vocabulary", type=int, default=8000, help="subwords to learn (%(default)s)")
    add(
        "--no-calibration",
        dest="calibrate",
        action="store_false",
        help="float32 on all cores for both sides: a quick look",
    )
    return parser.parse_args()


if __name__ == "__main__":
    serve(start) if sys.argv[1:] == ["--worker"] else main()
