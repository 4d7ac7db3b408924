"""Stability of training: recurrent and Transformer, over seeds and learning rates.

Each model learns captions (Multi30k, English to German) for a number of updates, at six learning
rates and with five seeds, each run from nothing. Gradients are not clipped, so that their norms are
those that the model has, and there is no dropout. Three things are compared: the spread of the
final loss over seeds, spikes of the gradient norm, and the learning rates that train.
"""

import hashlib
import json
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from crosshead import __version__
from crosshead.data.batching import Batch, Pairs, plan_in_order
from crosshead.data.text.tokenizers import TokenizerConfig, token_ids, train_tokenizer
from crosshead.models.registry import AnyConfig, build_model
from crosshead.recipe.train import TrainConfig
from crosshead.studies.captions import (
    RUNS,
    SOURCE,
    TARGET,
    TRAIN,
    VALID,
    VOCAB_SIZE,
    made_up,
    multi30k_text,
    side_by_side,
    transformer,
)
from crosshead.studies.effort import Effort, seeds_of
from crosshead.studies.equal import LUONG, shapes
from crosshead.studies.fitting import drawn_from
from crosshead.studies.heads import in_standard_errors
from crosshead.studies.sources import THIS_CODE
from crosshead.studies.study import Band, Result, Say, Study, Table, Unmeasured, Value, number
from crosshead.studies.times import TIMES
from crosshead.studies.turns import name_powers
from crosshead.system.files import atomic_write, make_directory
from crosshead.system.lines import read_lines
from crosshead.tasks.token_loss import token_loss
from crosshead.training.optimizer import Optimizer
from crosshead.training.schedule import learning_rate
from crosshead.vocabulary import EOS

RECURRENT, TRANSFORMER = "LSTM, Luong's attention", "Transformer"

SEEDS, UPDATES, BATCH_TOKENS = 5, 300, 1024
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Peaks of the learning rate, each about the root of ten times the one before; the warm-up is a
tenth of the updates, and the rate falls by the inverse square root from there."""

SPIKE, WINDOW = 3.0, 50
"""A spike is a norm above this multiple of the median of so many norms before it, or one that is
not finite; spikes are looked for behind the warm-up."""

LEARNED = 0.5
"""Nats below the entropy of token frequencies from which on a run counts as trained: it has learned
more than how frequent tokens are."""

SPREAD = "standard deviation of the final loss over seeds: LSTM over Transformer"
SPIKES = "share of updates with a spike: LSTM less Transformer, in standard errors over seeds"
RANGE = "learning rates that train with every seed: Transformer's less LSTM's"

BANDS = (
    Band(
        SPREAD, 2.53, math.inf,
        "More than chance: with five seeds a model, the ratio of two deviations that are alike is "
        "above 2.53 in one of twenty cases (F distribution, 4 and 4 degrees of freedom).",
    ),
    Band(
        SPIKES, 2.31, math.inf,
        "Exploding gradients are those of recurrences, so that the LSTM has more spikes, beyond "
        "chance: 2.31 standard errors are the bound of 95 % with 8 degrees of freedom.",
    ),
    Band(
        RANGE, 1, len(RATES),
        "What is hard to train has fewer rates that train it; one step of this grid, a factor of "
        "three, is the smallest difference this grid can show.",
    ),
)  # fmt: skip


class Training(NamedTuple):
    """One run, and what it depends on."""

    shape: AnyConfig
    rate: float
    updates: int
    tokens: int
    seed: int
    vocabulary: int
    text: str

    def settings(self) -> dict[str, Any]:
        """Return everything that tells one run from another, the code among it."""
        changed = {"shape": self.shape.model_dump()}
        return {**self._asdict(), **changed, "crosshead": __version__, "code": THIS_CODE}

    def place(self, kept: Path) -> Path:
        """Return the file in the folder `kept` with the outcome."""
        name = hashlib.sha256(json.dumps(self.settings()).encode()).hexdigest()[:16]
        return kept / f"{name}.json"


class Outcome(NamedTuple):
    """The outcome of a run."""

    loss: float
    """Nats a token on the validation set at the end; infinite where it is not finite."""
    norms: Sequence[float]
    """The gradient norm of every update; infinite where it is not finite."""

    @property
    def spikes(self) -> float:
        """The share of updates behind the warm-up with a spike."""
        places = range(max(1, len(self.norms) // 10), len(self.norms))
        return sum(is_spike(self.norms, place) for place in places) / max(1, len(places))


def is_spike(norms: Sequence[float], place: int) -> bool:
    """Return whether the norm at a place is a spike, by the finite norms before it."""
    before = [norm for norm in norms[max(0, place - WINDOW) : place] if norm < math.inf]
    if norms[place] == math.inf:
        return True
    return bool(before) and norms[place] > SPIKE * statistics.median(before)


class Text(NamedTuple):
    """A text as ids in a file."""

    entropy: float
    """Entropy of the token frequencies, in nats."""
    vocabulary: int
    digest: str
    """Digest of the ids: runs on another text are other runs."""


Runs = Mapping[tuple[str, float], Sequence[Outcome]]
"""By model and learning rate, an outcome for each seed."""


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train both models from every seed at every rate, each in a run of its own."""
    names = [band.name for band in BANDS]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        text = made_up(folder, seed).text if effort.quick else multi30k_text(say)
        if text is None:
            missing = Unmeasured("the captions are not there")
            return Result(dict.fromkeys(names, missing), [], lambda figure: None)
        tokenizer = {"kind": "words"} if effort.quick else {"vocab_size": VOCAB_SIZE}
        config = TokenizerConfig.model_validate(tokenizer)
        read = prepared(text, config, folder / "ids.json")
        kept = folder if effort.quick else RUNS / "stability"
        make_directory(kept)
        planned = plan(effort, seed, read)
        jobs = {
            f"{name}, rate {rate:g}, seed {each.seed}": partial(
                trained, each, folder / "ids.json", kept
            )
            for (name, rate), trainings in planned.items()
            for each in trainings
        }
        done = {}
        for job, outcome in side_by_side(jobs, quick=effort.quick):
            done[job] = outcome
            say(f"{job}: loss {number(outcome.loss)}, {outcome.spikes:.1%} spikes")
        found = {
            (name, rate): [done[f"{name}, rate {rate:g}, seed {each.seed}"] for each in trainings]
            for (name, rate), trainings in planned.items()
        }
        files = [each.place(kept) for trainings in planned.values() for each in trainings]
    bound = read.entropy - LEARNED
    measured: dict[str, Value] = dict.fromkeys(
        names, Unmeasured("the quick form trains for a few updates only")
    )
    if not effort.quick:
        measured = quantities(found, bound)
    title = (
        f"{effort.amount(2, UPDATES)} updates of {BATCH_TOKENS:,} tokens; a run has trained below "
        f"{bound:.2f} nats a token, {LEARNED} below the entropy of token frequencies"
    )
    return Result(
        measured, [Table(title, as_rows(found, bound))], partial(draw, found, bound), kept=files
    )


def plan(effort: Effort, seed: int, text: Text) -> dict[tuple[str, float], list[Training]]:
    """Return all runs by model and learning rate."""
    layers = 1 if effort.quick else 2
    reference = transformer(quick=effort.quick).model_copy(
        update={"dropout": 0.0, "encoder_layers": layers, "decoder_layers": layers}
    )
    compared = {RECURRENT: shapes(reference, text.vocabulary)[LUONG], TRANSFORMER: reference}
    updates = effort.amount(2, UPDATES)
    return {
        (name, rate): [
            Training(shape, rate, updates, BATCH_TOKENS, each, text.vocabulary, text.digest)
            for each in seeds_of(effort, seed, SEEDS)
        ]
        for name, shape in compared.items()
        for rate in (RATES[1:3] if effort.quick else RATES)
    }


def prepared(text: Path, config: TokenizerConfig, place: Path) -> Text:
    """Write the ids of a text into a file."""
    lines = {
        (part, end): read_lines(text / f"{part}.{end}")
        for part in (TRAIN, VALID)
        for end in (SOURCE, TARGET)
    }
    tokenizer = train_tokenizer(config, lines[TRAIN, SOURCE] + lines[TRAIN, TARGET])
    ids = {
        part: [token_ids(tokenizer, lines[part, end]) for end in (SOURCE, TARGET)]
        for part in (TRAIN, VALID)
    }
    written = json.dumps(ids).encode()
    atomic_write(place, written)
    counts = Counter(token for line in ids[VALID][1] for token in (*line, EOS))
    total = sum(counts.values())
    entropy = -sum(n / total * math.log(n / total) for n in counts.values())
    return Text(entropy, tokenizer.vocab_size, hashlib.sha256(written).hexdigest()[:16])


def trained(training: Training, ids: Path, kept: Path) -> Outcome:
    """Train, or find what came of that before."""
    place = training.place(kept)
    if not place.is_file():
        outcome = learn(training, *texts(ids))
        plain = {
            "loss": _finite(outcome.loss),
            "norms": [_finite(norm) for norm in outcome.norms],
        }
        atomic_write(place, json.dumps({**training.settings(), "found": plain}).encode())
    found = json.loads(place.read_text())["found"]
    loss, *norms = (math.inf if each is None else each for each in (found["loss"], *found["norms"]))
    return Outcome(loss, norms)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def texts(ids: Path) -> tuple[Pairs, Pairs]:
    """Read the pairs of training and of validation."""
    found = json.loads(ids.read_text())
    train, valid = (Pairs(list(zip(*found[part], strict=True))) for part in (TRAIN, VALID))
    return train, valid


def learn(training: Training, train: Pairs, valid: Pairs) -> Outcome:
    """Train a model from a seed, and look at the norm of each gradient and the loss at the end."""
    config = TrainConfig.model_validate(
        {
            "max_updates": training.updates, "learning_rate": training.rate,
            "warmup": max(1, training.updates // 10), "clip_norm": 0.0, "label_smoothing": 0.0,
        }
    )  # fmt: skip
    with drawn_from(training.seed):
        model = build_model(training.shape, training.vocabulary, training.vocabulary)
    optimizer, norms = Optimizer(model, config), []
    batches = endless(train, training.tokens, training.seed)
    for update, batch in zip(range(1, training.updates + 1), batches, strict=False):
        found = token_loss(model, batch, config.label_smoothing)
        optimizer.backward(found.sums["loss"] / found.count)
        norm = optimizer.step(learning_rate(config, training.shape.d_model, update))
        norms.append(math.inf if norm is None else norm)
    model.eval()
    nll, count = 0.0, 0
    with torch.no_grad():
        for rows in plan_in_order(valid.lengths, 4 * training.tokens):
            sums = token_loss(model, valid.collate(rows.tolist()), 0.0)
            nll, count = nll + float(sums.sums["nll"]), count + sums.count
    return Outcome(nll / count if math.isfinite(nll) else math.inf, norms)


def endless(pairs: Pairs, tokens: int, seed: int) -> Iterator[Batch]:
    """Give the batches of one epoch after the other."""
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


def best(found: Runs, name: str) -> Sequence[Outcome]:
    """Return the outcomes at the learning rate with the lowest mean loss."""
    of = [outcomes for (each, _), outcomes in found.items() if each == name]
    return min(of, key=lambda outcomes: statistics.mean(each.loss for each in outcomes))


def quantities(found: Runs, bound: float) -> dict[str, Value]:
    """Return the quantities of the bands, for models that train at some learning rate."""
    both = RECURRENT, TRANSFORMER
    rates = {name: len(rates_that_train(found, name, bound)) for name in both}
    for name in both:
        if not rates[name]:
            why = f"{name} trains at none of the learning rates"
            return dict.fromkeys((SPREAD, SPIKES, RANGE), Unmeasured(why))
    at_best = {name: best(found, name) for name in both}
    spread = {name: statistics.stdev(e.loss for e in each) for name, each in at_best.items()}
    spikes = [[each.spikes for each in at_best[name]] for name in both]
    alike = all(each == spikes[0][0] for side in spikes for each in side)
    return {
        SPREAD: spread[RECURRENT] / spread[TRANSFORMER],
        SPIKES: 0.0 if alike else in_standard_errors(*spikes),
        RANGE: float(rates[TRANSFORMER] - rates[RECURRENT]),
    }


def as_rows(found: Runs, bound: float) -> list[list[str]]:
    """Return a line for each model and learning rate."""
    rows = [["model", "rate", "loss by seed", "deviation", "trained", "spikes", "largest norm"]]
    for (name, rate), outcomes in found.items():
        losses = [outcome.loss for outcome in outcomes]
        several = len(losses) > 1 and max(losses) < math.inf
        largest = max(norm for outcome in outcomes for norm in outcome.norms)
        rows.append(
            [
                name,
                f"{rate:g}",
                ", ".join(f"{loss:.2f}" for loss in losses),
                f"{statistics.stdev(losses):.3f}" if several else "",
                f"{sum(loss < bound for loss in losses)} of {len(losses)}",
                f"{statistics.mean(each.spikes for each in outcomes):.1%}",
                number(largest),
            ]
        )
    return rows


def draw(found: Runs, bound: float, figure: Any) -> None:
    """Final losses by learning rate, and the gradient norms of the first seed at the best one."""
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
        right.plot([each + 1 for each in spikes], [norms[each] for each in spikes], "x", color="r")
    left.axhline(bound, color="gray", ls=":")
    left.set(xscale="log", xlabel="learning rate", ylabel="nats a token at the end")
    left.legend(fontsize=8)
    right.set(yscale="log", xlabel="update", ylabel="gradient norm", title="at the best rate")
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
    TIMES["stability"],
)
