"""Stability of training: recurrent and Transformer, over seeds and learning rates.

Each model learns captions (Multi30k, English to German) for a number of updates, at six learning
rates and from five seeds, each run from the start. Gradients are not clipped, so that the recorded
norms are the model's own, and there is no dropout. The study compares the spread of the final loss
over seeds, spikes of the gradient norm, and the learning rates that train.
"""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count, product
from pathlib import Path
from typing import NamedTuple

import torch

from crosshead.addons.studies import captions, fitting
from crosshead.addons.studies.charts import Sheet, cells, single
from crosshead.addons.studies.fitting import LUONG, drawn_from, shapes, updates
from crosshead.addons.studies.measuring import in_standard_errors
from crosshead.addons.studies.runs import Stored, results, stored
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
from crosshead.models.registry import AnyTokenConfig, build_model
from crosshead.tasks.token_loss import LabelSmoothing, token_loss
from crosshead.text.batching import Batch, Pairs, plan_in_order
from crosshead.text.tokenizers import TokenizerConfig, token_ids, train_tokenizer
from crosshead.vocabulary import EOS

RECURRENT, TRANSFORMER = "LSTM, Luong's attention", "Transformer"

SEEDS, UPDATES, BATCH_TOKENS = 5, 300, 1024
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Peaks of the learning rate, each about the root of ten times the one before. The warm-up is a
tenth of the updates, and the rate falls by the inverse square root from there."""

SPIKE, WINDOW = 3.0, 50
"""A spike is a gradient norm above `SPIKE` times the median of the `WINDOW` norms before it, or one
that is not finite. Spikes during the warm-up do not count."""

LEARNED = 0.5
"""Nats below the entropy of token frequencies from which on a run counts as trained: it has learned
more than the frequencies."""

SPREAD = "standard deviation of the final loss over seeds: LSTM over Transformer"
SPIKES = "share of updates with a spike: LSTM less Transformer, in standard errors over seeds"
RANGE = "learning rates that train with every seed: Transformer's less LSTM's"

BANDS = (
    Band(
        SPREAD, 2.53, math.inf,
        "More than chance: of five seeds each, the ratio of two equal deviations is above 2.53 in "
        "one of twenty cases (F distribution).",
    ),
    Band(
        SPIKES, 2.31, math.inf,
        "Recurrences have exploding gradients, so the LSTM has more spikes, beyond chance (95 %, 8 "
        "degrees of freedom).",
    ),
    Band(
        RANGE, 1, len(RATES),
        "A model that is hard to train has fewer rates that train it, by one step of this grid.",
    ),
)  # fmt: skip


class StabilityRun(NamedTuple):
    """The settings of a run; the folder of the text, and whether its tokens are words."""

    shape: AnyTokenConfig
    rate: float
    updates: int
    tokens: int
    seed: int
    text: str
    words: bool


class LossAndNorms(NamedTuple):
    """The final validation loss of a run in nats a token, and the gradient norm of every update.

    Infinity stands for every number that is not finite.
    """

    loss: float
    norms: Sequence[float]

    @property
    def spikes(self) -> float:
        """The share of updates after the warm-up with a spike."""
        places = range(max(1, len(self.norms) // 10), len(self.norms))
        return sum(is_spike(self.norms, place) for place in places) / max(1, len(places))


def is_spike(norms: Sequence[float], place: int) -> bool:
    """Return whether the norm at a place is a spike, by the finite norms before it."""
    before = [norm for norm in norms[max(0, place - WINDOW) : place] if norm < math.inf]
    above = bool(before) and norms[place] > SPIKE * statistics.median(before)
    return above or norms[place] == math.inf


class CaptionIds(NamedTuple):
    """Pairs of token ids, and the entropy in nats of the target's frequencies."""

    train: Pairs
    valid: Pairs
    vocabulary: int
    entropy: float


Runs = Mapping[tuple[str, float], Sequence[LossAndNorms]]
"""By model and learning rate, an outcome for each seed."""


def run(trial: Trial) -> Result:
    """Train both models from every seed at every rate."""
    text, most = captions.text_of(trial), trial.amount(2, UPDATES)
    found = results(
        trial, product((RECURRENT, TRANSFORMER), RATES[1:3] if trial.quick else RATES),
        lambda of, seed: plan(trial, text, of[0], of[1], seed), trained, SEEDS,
    )  # fmt: skip
    bound = read(str(text), words=trial.quick).entropy - LEARNED
    measured = {} if trial.quick else quantities(found, bound)
    return Result(measured, sheets(found, bound, most))


def plan(trial: Trial, text: Path, name: str, rate: float, seed: int) -> Stored:
    """Return the stored outcome of a model at a learning rate."""
    layers, most = 1 if trial.quick else 2, trial.amount(2, UPDATES)
    attending = captions.transformer(quick=trial.quick).model_copy(
        update={"dropout": 0.0, "encoder_layers": layers, "decoder_layers": layers}
    )
    vocabulary = read(str(text), words=trial.quick).vocabulary
    shape = shapes(attending, vocabulary)[LUONG if name == RECURRENT else fitting.TRANSFORMER]
    run = StabilityRun(shape, rate, most, BATCH_TOKENS, seed, str(text), trial.quick)
    return stored(trial, "stability", run)


@cache
def read(text: str, *, words: bool) -> CaptionIds:
    """Read the captions as token ids: words, or subwords learned from them."""
    lines = {part: captions.sides(Path(text), part) for part in (captions.TRAIN, captions.VALID)}
    source, target = lines[captions.TRAIN]
    config = {"kind": "words"} if words else {"vocab_size": captions.VOCAB_SIZE}
    tokenizer = train_tokenizer(TokenizerConfig.model_validate(config), source + target)
    train, valid = (
        list(zip(*(token_ids(tokenizer, side) for side in sides), strict=True))
        for sides in lines.values()
    )
    counts = Counter(token for _, side in valid for token in (*side, EOS))
    total = sum(counts.values())
    entropy = -sum(n / total * math.log(n / total) for n in counts.values())
    return CaptionIds(Pairs(train), Pairs(valid), tokenizer.vocab_size, entropy)


def trained(run: Stored) -> LossAndNorms:
    """Train on captions, or find the stored outcome."""
    return LossAndNorms(*run.result(learn))


def learn(each: StabilityRun) -> LossAndNorms:
    """Train a model from a seed, and record the norm of each gradient and the loss at the end."""
    text = read(each.text, words=each.words)
    with drawn_from(each.seed) as generator:
        model = build_model(each.shape, text.vocabulary, text.vocabulary)
    batches, warmup = endless(text.train, each.tokens, each.seed), max(1, each.updates // 10)
    norms = list(
        updates(
            model, lambda generator: next(batches), generator, most=each.updates, rate=each.rate,
            warmup=warmup, clip_norm=0.0,
        )
    )  # fmt: skip
    model.eval()
    nll, tokens = 0.0, 0
    with torch.no_grad():
        for rows in plan_in_order(text.valid.lengths, 4 * each.tokens):
            sums = token_loss(model, text.valid.collate(rows.tolist()), LabelSmoothing(0.0))
            nll, tokens = nll + float(sums.sums["nll"]), tokens + sums.count
    return LossAndNorms(nll / tokens if math.isfinite(nll) else math.inf, norms)


def endless(pairs: Pairs, tokens: int, seed: int) -> Iterator[Batch]:
    """Yield the batches of all epochs, one after another."""
    for epoch in count():
        for rows in pairs.plan(tokens, seed, epoch):
            yield pairs.collate(rows.tolist())


def rates_that_train(found: Runs, name: str, bound: float) -> list[float]:
    """Return the learning rates at which every seed ends below the bound."""
    return [
        rate
        for (each, rate), outcomes in found.items()
        if each == name and all(outcome.loss < bound for outcome in outcomes)
    ]


def best(found: Runs, name: str) -> Sequence[LossAndNorms]:
    """Return the outcomes at the learning rate with the lowest mean loss."""
    of = [outcomes for (each, _), outcomes in found.items() if each == name]
    return min(of, key=lambda outcomes: statistics.mean(each.loss for each in outcomes))


def quantities(found: Runs, bound: float) -> dict[str, Value]:
    """Return the quantities of the bands, if both models train at some learning rate."""
    both, names = (RECURRENT, TRANSFORMER), (SPREAD, SPIKES, RANGE)
    rates = {name: len(rates_that_train(found, name, bound)) for name in both}
    for name in both:
        if not rates[name]:
            return dict.fromkeys(names, f"{name} trains at none of the learning rates")
    spread = [statistics.stdev(each.loss for each in best(found, name)) for name in both]
    spikes = [[each.spikes for each in best(found, name)] for name in both]
    return {
        SPREAD: spread[0] / spread[1],
        SPIKES: in_standard_errors(*spikes),
        RANGE: float(rates[TRANSFORMER] - rates[RECURRENT]),
    }


def sheets(found: Runs, bound: float, most: int) -> list[Sheet]:
    """Show losses, whether runs have trained, spikes and largest norms, by model and rate.

    The first seed's norms at the best rate are drawn, too.
    """
    title = f"Nats a token after {most} updates of {BATCH_TOKENS:,} tokens, by seed"
    below = f"Trained: below {bound:.2f} nats, {LEARNED} below the entropy of token frequencies"
    losses = cells(found, lambda of: [each.loss for each in of])
    trained = cells(found, lambda of: [each.loss < bound for each in of])
    spikes = cells(found, lambda of: [each.spikes for each in of])
    largest = cells(found, lambda of: [max(each.norms) for each in of])
    norms = {name: best(found, name)[0].norms for name in (RECURRENT, TRANSFORMER)}
    by_update = single({name: dict(enumerate(each, 1)) for name, each in norms.items()})
    return [
        Sheet(title, losses, "learning rate", ".2f", log="x", level=bound),
        Sheet(below, trained, "learning rate", drawn=False),
        Sheet("Updates with a spike", spikes, "learning rate", ".1%", drawn=False),
        Sheet("Largest gradient norm", largest, "learning rate", drawn=False),
        Sheet(
            "gradient norm, first seed, best learning rate", by_update, "update", log="y",
            listed=False,
        ),
    ]  # fmt: skip


STABILITY = Study(
    "stability",
    "Gradients of recurrent models explode, and the Transformer trains more stably",
    "There are two widely known issues with properly training Recurrent Neural Networks, the "
    "vanishing and the exploding gradient problems detailed in Bengio et al. (1994).",
    "Pascanu et al. 2013, abstract",
    BANDS,
    run,
    seconds=1814,
)
