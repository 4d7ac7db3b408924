"""Stability of training: recurrent and Transformer, over seeds and learning rates.

Each model learns captions (Multi30k, English to German) for a number of updates, at six learning
rates and from five seeds, each run from the start. Gradients are not clipped, so that the recorded
norms are the model's own, and there is no dropout. The study compares the spread of the final loss
over seeds, spikes of the gradient norm, and the learning rates that train.
"""

import hashlib
import json
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from crosshead.addons.studies import captions
from crosshead.addons.studies.charts import name_powers
from crosshead.addons.studies.effort import Effort, Times, seeds_of
from crosshead.addons.studies.equal import LUONG, shapes
from crosshead.addons.studies.fitting import drawn_from, updates
from crosshead.addons.studies.formats import joined, number
from crosshead.addons.studies.heads import in_standard_errors
from crosshead.addons.studies.runs import RUNS, side_by_side
from crosshead.addons.studies.sources import stored, stored_at
from crosshead.addons.studies.study import Band, Result, Say, Study, Table, Value, after_training
from crosshead.models.registry import AnyTokenConfig, build_model
from crosshead.system.files import atomic_write
from crosshead.tasks.token_loss import LabelSmoothing, token_loss
from crosshead.text.batching import Batch, Pairs, plan_in_order
from crosshead.text.tokenizers import TokenizerConfig, token_ids, train_tokenizer
from crosshead.vocabulary import EOS

RECURRENT, TRANSFORMER = "LSTM, Luong's attention", "Transformer"

PARTS = captions.TRAIN, captions.VALID
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
        "More than chance: with five seeds a model, the ratio of two equal deviations is above "
        "2.53 in one of twenty cases (F distribution, 4 and 4 degrees of freedom).",
    ),
    Band(
        SPIKES, 2.31, math.inf,
        "Recurrences have exploding gradients, so the LSTM has more spikes, beyond chance: 2.31 "
        "standard errors are the bound of 95 % with 8 degrees of freedom.",
    ),
    Band(
        RANGE, 1, len(RATES),
        "A model that is hard to train has fewer rates that train it. One step of this grid, a "
        "factor of three, is the smallest difference that the grid can show.",
    ),
)  # fmt: skip


class StabilityRun(NamedTuple):
    """The settings of a run; `text` is the digest of the token ids."""

    shape: AnyTokenConfig
    rate: float
    updates: int
    tokens: int
    seed: int
    vocabulary: int
    text: str


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
    """Token ids in a file: the entropy of their frequencies in nats, and a digest of the ids."""

    entropy: float
    vocabulary: int
    digest: str


Runs = Mapping[tuple[str, float], Sequence[LossAndNorms]]
"""By model and learning rate, an outcome for each seed."""


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train both models from every seed at every rate."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        text = captions.made_up(folder, seed).text if effort.quick else captions.multi30k_text(say)
        if text is None:
            missing = dict.fromkeys((band.name for band in BANDS), captions.MISSING)
            return Result(missing, [], lambda figure: None)
        tokenizer = {"kind": "words"} if effort.quick else {"vocab_size": captions.VOCAB_SIZE}
        ids = folder / "ids.json"
        read = prepared(text, TokenizerConfig.model_validate(tokenizer), ids)
        kept = folder if effort.quick else RUNS / "stability"
        planned = plan(effort, seed, read)
        jobs = {job: partial(trained, each, ids, kept) for job, each in planned.items()}
        done = {}
        for job, outcome in side_by_side(jobs, quick=effort.quick):
            done[job] = outcome
            loss, spikes = number(outcome.loss), f"{outcome.spikes:.1%} spikes"
            say(f"{job[0]}, rate {job[1]:g}, seed {job[2]}: loss {loss}, {spikes}")
    found: dict[tuple[str, float], list[LossAndNorms]] = {}
    for name, rate, each_seed in planned:
        found.setdefault((name, rate), []).append(done[name, rate, each_seed])
    files = [stored_at(each, kept) for each in planned.values()]
    bound = read.entropy - LEARNED
    title = (
        f"{effort.amount(2, UPDATES)} updates of {BATCH_TOKENS:,} tokens; a run has trained below "
        f"{bound:.2f} nats a token, {LEARNED} below the entropy of token frequencies"
    )
    tables, picture = [Table(title, as_rows(found, bound))], partial(draw, found, bound)
    return Result(quantities(found, bound, effort), tables, picture, kept=files)


def plan(effort: Effort, seed: int, text: CaptionIds) -> dict[tuple[str, float, int], StabilityRun]:
    """Return all runs by model, learning rate and seed."""
    layers, updates_of = 1 if effort.quick else 2, effort.amount(2, UPDATES)
    reference = captions.transformer(quick=effort.quick).model_copy(
        update={"dropout": 0.0, "encoder_layers": layers, "decoder_layers": layers}
    )
    compared = {RECURRENT: shapes(reference, text.vocabulary)[LUONG], TRANSFORMER: reference}
    rates, seeds = RATES[1:3] if effort.quick else RATES, seeds_of(effort, seed, SEEDS)
    planned = {}
    for name, rate, each in product(compared, rates, seeds):
        own = compared[name], rate, updates_of, BATCH_TOKENS, each
        planned[name, rate, each] = StabilityRun(*own, text.vocabulary, text.digest)
    return planned


def prepared(text: Path, config: TokenizerConfig, place: Path) -> CaptionIds:
    """Write the token ids of a text into a file."""
    lines = {part: captions.sides(text, part) for part in PARTS}
    source, target = lines[captions.TRAIN]
    tokenizer = train_tokenizer(config, source + target)
    ids = {part: [token_ids(tokenizer, side) for side in lines[part]] for part in PARTS}
    written = json.dumps(ids).encode()
    atomic_write(place, written)
    counts = Counter(token for line in ids[captions.VALID][1] for token in (*line, EOS))
    total = sum(counts.values())
    entropy = -sum(n / total * math.log(n / total) for n in counts.values())
    return CaptionIds(entropy, tokenizer.vocab_size, hashlib.sha256(written).hexdigest()[:16])


def trained(each: StabilityRun, ids: Path, folder: Path) -> LossAndNorms:
    """Train on the ids of a file, or find the stored outcome."""

    def outcome() -> list[float | None]:
        read = json.loads(ids.read_text())
        train, valid = (Pairs(list(zip(*read[part], strict=True))) for part in PARTS)
        found = learn(each, train, valid)
        return [n if math.isfinite(n) else None for n in (found.loss, *found.norms)]

    loss, *norms = (math.inf if n is None else n for n in stored(each, folder, outcome))
    return LossAndNorms(loss, norms)


def learn(each: StabilityRun, train: Pairs, valid: Pairs) -> LossAndNorms:
    """Train a model from a seed, and record the norm of each gradient and the loss at the end."""
    with drawn_from(each.seed) as generator:
        model = build_model(each.shape, each.vocabulary, each.vocabulary)
    batches, warmup = endless(train, each.tokens, each.seed), max(1, each.updates // 10)
    norms = list(
        updates(
            model, lambda generator: next(batches), generator, most=each.updates, rate=each.rate,
            warmup=warmup, clip_norm=0.0,
        )
    )  # fmt: skip
    model.eval()
    nll, count = 0.0, 0
    with torch.no_grad():
        for rows in plan_in_order(valid.lengths, 4 * each.tokens):
            sums = token_loss(model, valid.collate(rows.tolist()), LabelSmoothing(0.0))
            nll, count = nll + float(sums.sums["nll"]), count + sums.count
    return LossAndNorms(nll / count if math.isfinite(nll) else math.inf, norms)


def endless(pairs: Pairs, tokens: int, seed: int) -> Iterator[Batch]:
    """Yield the batches of all epochs, one after another."""
    epoch = 0
    while True:
        for rows in pairs.plan(tokens, seed, epoch):
            yield pairs.collate(rows.tolist())
        epoch += 1


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


def quantities(found: Runs, bound: float, effort: Effort) -> dict[str, Value]:
    """Return the quantities of the bands, if both models train at some learning rate."""
    both, names = (RECURRENT, TRANSFORMER), (SPREAD, SPIKES, RANGE)
    if effort.quick:
        return after_training(effort, dict.fromkeys(names, 0.0))
    rates = {name: len(rates_that_train(found, name, bound)) for name in both}
    for name in both:
        if not rates[name]:
            return dict.fromkeys(names, f"{name} trains at none of the learning rates")
    spread = [statistics.stdev(each.loss for each in best(found, name)) for name in both]
    spikes = [[each.spikes for each in best(found, name)] for name in both]
    alike = all(each == spikes[0][0] for side in spikes for each in side)
    return {
        SPREAD: spread[0] / spread[1],
        SPIKES: 0.0 if alike else in_standard_errors(*spikes),
        RANGE: float(rates[TRANSFORMER] - rates[RECURRENT]),
    }


def as_rows(found: Runs, bound: float) -> list[list[str]]:
    """Return a line for each model and learning rate."""
    rows = [["model", "rate", "loss by seed", "deviation", "trained", "spikes", "largest norm"]]
    for (name, rate), outcomes in found.items():
        losses = [outcome.loss for outcome in outcomes]
        several = len(losses) > 1 and max(losses) < math.inf
        deviation = f"{statistics.stdev(losses):.3f}" if several else ""
        trained = f"{sum(loss < bound for loss in losses)} of {len(losses)}"
        spikes = f"{statistics.mean(each.spikes for each in outcomes):.1%}"
        largest = number(max(norm for outcome in outcomes for norm in outcome.norms))
        shown = joined(losses, ".2f")
        rows.append([name, f"{rate:g}", shown, deviation, trained, spikes, largest])
    return rows


def draw(found: Runs, bound: float, figure: Any) -> None:
    """Draw final losses by learning rate, and the first seed's gradient norms at the best rate."""
    left, right = figure.subplots(1, 2)
    for name, color in ((RECURRENT, "tab:orange"), (TRANSFORMER, "tab:blue")):
        rates = [rate for each, rate in found if each == name]
        points = [(r, outcome.loss) for r in rates for outcome in found[name, r]]
        left.plot(*zip(*points, strict=True), "o", ms=4, alpha=0.6, color=color, label=name)
        means = [statistics.mean(each.loss for each in found[name, rate]) for rate in rates]
        left.plot(rates, means, color=color, lw=1)
        norms = best(found, name)[0].norms
        right.plot(range(1, len(norms) + 1), norms, color=color, lw=1)
        spikes = [place for place in range(len(norms) // 10, len(norms)) if is_spike(norms, place)]
        crosses = [each + 1 for each in spikes], [norms[each] for each in spikes]
        right.plot(*crosses, "x", color="r", label="spike" if name == TRANSFORMER else None)
    left.axhline(bound, color="gray", ls=":", label="trained below this line")
    left.set(xscale="log", xlabel="learning rate", ylabel="nats a token at the end")
    left.legend(fontsize=8)
    right.set(yscale="log", xlabel="update", ylabel="gradient norm, first seed")
    right.set_title("at each model's best learning rate", fontsize=10)
    right.legend(fontsize=8)
    name_powers(right.yaxis)
    for axes in (left, right):
        axes.grid(alpha=0.3)


STABILITY = Study(
    "stability",
    "Gradients of recurrent models explode, and the Transformer trains more stably",
    "There are two widely known issues with properly training Recurrent Neural Networks, the "
    "vanishing and the exploding gradient problems detailed in Bengio et al. (1994).",
    "Pascanu et al. 2013, abstract",
    BANDS,
    run,
    Times(quick=2, full=1814),
)
