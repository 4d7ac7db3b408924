"""Sentences in a running batch, alone, and in planned batches: equality and CPU time.

    python benchmarks/continuous.py BUNDLE FILE > continuous.md

One thread. Under random arrivals, up to 8 sentences come before a step, with at most 32 at once.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from crosshead.decoding.beam import RunningBatch
from crosshead.decoding.hypotheses import Hypothesis
from crosshead.decoding.settings import BeamRules
from crosshead.tasks.batched_search import TokenInputs, search_all
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator

AT_ONCE = 32
ROUNDS = 3

Found = list[list[Hypothesis]]


class Search:
    """The sentences of a file, and the ways to search for their translations."""

    def __init__(self, translator: Translator, lines: Sequence[str], beam: int) -> None:
        self.model, self.specials = translator.model, translator.bundle.specials
        self.decode = translator.bundle.config.decode.model_copy(update={"beam": beam})
        self.ids = translator.planned(lines, 0).ids
        self.inputs = TokenInputs(self.ids)

    def planned(self, n_best: int) -> Found:
        """As `crosshead translate` searches."""
        return search_all(self.model, self.inputs, self.specials, self.decode, n_best)

    def alone(self, n_best: int) -> Found:
        """Each sentence by itself."""
        return [
            search_all(self.model, TokenInputs([ids]), self.specials, self.decode, n_best)[0]
            for ids in self.ids
        ]

    def arriving(self, n_best: int) -> Found:
        """Sentences in random order that join a running batch in random numbers."""
        choose = random.Random(1)
        waiting = list(range(len(self.ids)))
        choose.shuffle(waiting)
        rules = BeamRules(
            self.decode.beam, self.decode.length_penalty, offset=self.decode.length_offset
        )
        batch: RunningBatch = RunningBatch(self.model, self.specials, rules)
        found: dict[int, list[Hypothesis]] = {}
        while waiting or len(batch):
            count = min(len(waiting), choose.choice([0, 1, 2, 3, 8]), AT_ONCE - len(batch))
            if count:
                new = [waiting.pop() for _ in range(count)]
                source = self.inputs.collate(new, torch.device("cpu"))
                start = torch.full((count, 1), self.specials.start)
                stepped = self.model.step(self.model.start(source), start)
                limits = [len(self.ids[row]) + 1 + self.decode.max_extra for row in new]
                found.update(batch.add(stepped, torch.tensor(limits), new, [n_best] * count))
            if len(batch):
                found.update(batch.take(self.model.step(batch.state, batch.last)))
        return [found[row] for row in range(len(self.ids))]


def timed(work: Callable[[int], Found], n_best: int) -> tuple[Found, float]:
    begin = time.process_time()
    with torch.inference_mode():
        found = work(n_best)
    return found, time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle")
    parser.add_argument("file", type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    given = parser.parse_args()
    translator = load_as(Translator, given.bundle, "cpu", 1)
    lines = given.file.read_text("utf-8").splitlines()[: given.sentences]
    columns = [
        "beam", "equal lists of hypotheses", "different translations",
        "largest difference of a score",
        "CPU seconds alone", "CPU seconds planned", "CPU seconds arriving",
    ]  # fmt: skip
    print(f"| {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|---|")
    for beam in (1, 4):
        search = Search(translator, lines, beam)
        alone, seconds = timed(search.alone, beam)
        arriving, _ = timed(search.arriving, beam)
        equal = sum(
            [h.tokens for h in mine] == [h.tokens for h in other]
            for mine, other in zip(alone, arriving, strict=True)
        )
        difference = max(
            abs(mine[0].score - other[0].score) for mine, other in zip(alone, arriving, strict=True)
        )
        different = len({tuple(found[0].tokens) for found in alone})
        turns = [[timed(way, 1)[1] for way in (search.planned, search.arriving)]
                 for _ in range(ROUNDS)]  # fmt: skip
        planned, running = (
            f"{min(each):.1f} to {max(each):.1f}" for each in zip(*turns, strict=True)
        )
        cells = [
            str(beam), f"{equal} of {len(lines)}", str(different), f"{difference:.1e}",
            f"{seconds:.1f}", planned, running,
        ]  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)
    print("done", file=sys.stderr)


if __name__ == "__main__":
    main()
