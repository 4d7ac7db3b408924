"""Training speed by sequence length: recurrent, step after step, and the Transformer, at once."""

import statistics
import time
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Generator

from crosshead.bundle import build_model
from crosshead.data.batching import Batch, collate
from crosshead.devices import choose_device
from crosshead.models.recurrent import RecurrentConfig
from crosshead.models.registry import AnyConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.studies.equal import as_large, weights
from crosshead.studies.fitting import FIRST
from crosshead.studies.study import Band, Result, Say, Study, Table, number
from crosshead.training.optimizer import Optimizer
from crosshead.training.recipe import TrainConfig
from crosshead.training.updater import batch_loss

VOCABULARY = 1000
TRANSFORMER, RECURRENT = "Transformer", "LSTM, Luong's attention"


class Size(NamedTuple):
    """How much is measured: lengths, tokens of a batch, rounds and the least seconds of each."""

    d_model: int
    lengths: tuple[int, ...]
    tokens: int
    rounds: int
    seconds: float


FULL = Size(256, (16, 32, 64, 128, 256, 512), 4096, 7, 1.0)
QUICK = Size(32, (8, 32), 64, 2, 0.0)

ALONE = "one sentence of the longest: Transformer over recurrent"
GROWTH = "one sentence: that ratio at the longest over the same at the shortest"
BATCHED = "a full batch of the longest: Transformer over recurrent"
SAME = "a full batch: the recurrent model's speed at the longest over that at the shortest"

BANDS = (
    Band(
        ALONE, 2, float("inf"),
        "All positions of a layer are one product; of a recurrence each is a product of one row, "
        "which reads all weights to use them once.",
    ),
    Band(
        GROWTH, 2, float("inf"),
        "What is sequential grows with the length: this ratio is what an update costs besides, "
        "taken out, since both models pay that.",
    ),
    Band(
        BATCHED, 1, float("inf"),
        "Eight sentences of 512 fill a batch, and a product of eight rows is slower than one of "
        "4,096. But without many cores attention's n^2 d operations count: no more is claimed.",
    ),
    Band(
        SAME, 0, 0.8,
        "As many operations, in 32 times as many steps: \"memory constraints limit batching "
        "across examples\" (section 1).",
    ),
)  # fmt: skip


def transformer(d_model: int) -> TransformerConfig:
    """Two layers a side."""
    return TransformerConfig.model_validate(
        {
            "d_model": d_model, "d_ff": 4 * d_model, "heads": 4, "encoder_layers": 2,
            "decoder_layers": 2, "dropout": 0.0,
        }
    )  # fmt: skip


def recurrent(d_model: int) -> RecurrentConfig:
    """Two layers a side, each one call of PyTorch's; nothing is a loop in Python."""
    return RecurrentConfig.model_validate(
        {"d_model": d_model, "attention": "luong-general", "dropout": 0.0}
    )


class Trainee:
    """A model, and the time that its updates take."""

    def __init__(self, config: AnyConfig, device: torch.device) -> None:
        self.model = build_model(config, VOCABULARY, VOCABULARY).to(device)
        self.optimizer = Optimizer(
            self.model, TrainConfig.model_validate({"max_updates": 1, "learning_rate": 1e-4})
        )

    def update(self, batch: Batch) -> None:
        """One update, done when this returns."""
        found = batch_loss(self.model, batch, smoothing=0.1)
        self.optimizer.backward(found.loss / found.count)
        self.optimizer.step(1e-4)  # reads the norm of the gradient: waits for the device

    def rate(self, batch: Batch, seconds: float) -> float:
        """Target tokens a second, over as many updates as fill so many seconds."""
        began, updates = time.perf_counter(), 0
        while not updates or time.perf_counter() - began < seconds:
            self.update(batch)
            updates += 1
        if batch.source.device.type == "cuda":
            torch.cuda.synchronize()
        return updates * batch.target_tokens / (time.perf_counter() - began)


Rates = dict[tuple[str, int, int], list[float]]
"""Of a model by name, at so many sentences of a length, in each round."""


def run(quick: bool, seed: int, say: Say) -> Result:
    """Both models in turn, round after round, at each length."""
    how = QUICK if quick else FULL
    device = choose_device("auto")
    first = transformer(how.d_model)
    other = as_large(recurrent, VOCABULARY, weights(first, VOCABULARY))
    shapes: dict[str, AnyConfig] = {TRANSFORMER: first, RECURRENT: other}
    trainees = {name: Trainee(config, device) for name, config in shapes.items()}
    generator = Generator().manual_seed(seed)
    rates: Rates = {}
    for length in how.lengths:
        for rows in (1, how.tokens // length):
            batch = random_batch(rows, length, generator).to(device)
            for trainee in trainees.values():
                trainee.update(batch)  # kernels are chosen, memory is taken
            for _ in range(how.rounds):
                for name, trainee in trainees.items():
                    found = trainee.rate(batch, how.seconds)
                    rates.setdefault((name, rows, length), []).append(found)
            ratio = statistics.median(ratios(rates, rows, length))
            say(f"{rows} of {length} tokens: Transformer over recurrent {number(ratio)}")
    where = f"{device}, {torch.get_num_threads()} threads"
    sizes = ", ".join(
        f"{name} {weights(shape, VOCABULARY):,} (d_model {shape.d_model})"
        for name, shape in shapes.items()
    )
    title = f"Target tokens a second in training, on {where}; weights: {sizes}"
    rows_of = [(1, n) for n in how.lengths] + [(how.tokens // n, n) for n in how.lengths]
    tables = [Table(title, as_rows(rates, rows_of))]
    return Result(measured(rates, how), tables, partial(draw, rates, how))


def random_batch(rows: int, length: int, generator: Generator) -> Batch:
    """Sentences of `length` tokens on either side, their ends counted, of no meaning."""
    drawn = torch.randint(FIRST, VOCABULARY, (rows, 2, length - 1), generator=generator).tolist()
    return collate([(source, target) for source, target in drawn], range(rows))


def ratios(rates: Rates, rows: int, length: int) -> list[float]:
    """The Transformer's speed over the recurrent model's, round by round."""
    both = (rates[name, rows, length] for name in (TRANSFORMER, RECURRENT))
    return [fast / slow for fast, slow in zip(*both, strict=True)]


def measured(rates: Rates, how: Size) -> dict[str, float]:
    """The quantities of the bands: medians over rounds."""
    short, long = how.lengths[0], how.lengths[-1]

    def ratio(rows: int, length: int) -> float:
        return statistics.median(ratios(rates, rows, length))

    def speed(length: int) -> float:
        return statistics.median(rates[RECURRENT, how.tokens // length, length])

    return {
        ALONE: ratio(1, long),
        GROWTH: ratio(1, long) / ratio(1, short),
        BATCHED: ratio(how.tokens // long, long),
        SAME: speed(long) / speed(short),
    }


def as_rows(rates: Rates, places: list[tuple[int, int]]) -> list[list[str]]:
    """Medians, and the ratio with its smallest and largest."""
    rows = [["sentences x tokens", TRANSFORMER, RECURRENT, "ratio", "in rounds"]]
    for count, length in places:
        speeds = (statistics.median(rates[n, count, length]) for n in (TRANSFORMER, RECURRENT))
        found = ratios(rates, count, length)
        rows.append(
            [
                f"{count} x {length}",
                *(f"{speed:,.0f}" for speed in speeds),
                number(statistics.median(found)),
                f"{number(min(found))} to {number(max(found))}",
            ]
        )
    return rows


def draw(rates: Rates, how: Size, figure: Any) -> None:
    """Speed by length: of a single sentence, and of full batches."""
    panels = figure.subplots(1, 2, sharey=True)
    titles = ("one sentence", f"batches of {how.tokens:,} tokens")
    for axes, title, alone in zip(panels, titles, (True, False), strict=True):
        for name in (TRANSFORMER, RECURRENT):
            found = [
                rates[name, 1 if alone else how.tokens // length, length] for length in how.lengths
            ]
            axes.plot(how.lengths, [statistics.median(each) for each in found], "o-", label=name)
            lows, highs = [min(each) for each in found], [max(each) for each in found]
            axes.fill_between(how.lengths, lows, highs, alpha=0.2)
        axes.set(xscale="log", yscale="log", title=title, xlabel="tokens of a sentence")
        axes.set_xticks(how.lengths, map(str, how.lengths))
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("target tokens a second")
    panels[0].legend()


PARALLELISM = Study(
    "parallelism",
    "Recurrence is sequential within a sentence, and attention is not",
    "This inherently sequential nature precludes parallelization within training examples, which "
    "becomes critical at longer sequence lengths, as memory constraints limit batching across "
    "examples.",
    "Vaswani et al. 2017, section 1",
    BANDS,
    run,
)
