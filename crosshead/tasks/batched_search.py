"""Search for many sentences: batches of similar length, several side by side on a CPU."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from crosshead.decoding.hypotheses import Hypothesis, Specials
from crosshead.decoding.protocol import Sources
from crosshead.decoding.search import search
from crosshead.decoding.settings import DecodeConfig
from crosshead.models.base import SequenceModel
from crosshead.text.batching import collate, example_lengths, plan_in_order

LEAST_TOKENS = 1024
"""The smallest token budget of a batch when threads share the budget."""

Rows = list[int]
Found = list[list[Hypothesis]]


class SearchInputs(Protocol):
    """The sources of a search."""

    @property
    def lengths(self) -> np.ndarray:
        """The number of positions of each source, and 1 for the start of its output: "n 2"."""
        ...

    def collate(self, rows: Rows, device: torch.device) -> Sources:
        """Return some sources as a batch for `model.start`."""
        ...


@dataclass(frozen=True)
class TokenInputs:
    """Texts to search from, as token ids without eos."""

    ids: Sequence[Sequence[int]]

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each text, eos included, and 1."""
        return example_lengths([(source, ()) for source in self.ids])

    def collate(self, rows: Rows, device: torch.device) -> Tensor:
        """Return texts as padded token ids, "B S"."""
        return collate([(self.ids[row], ()) for row in rows], range(len(rows))).source.to(device)


def search_all(
    model: SequenceModel,
    sources: SearchInputs,
    specials: Specials,
    decode: DecodeConfig,
    n_best: int = 1,
    *,
    numbers: Sequence[int] | None = None,
    most: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Found:
    """Return the `n_best` hypotheses of each source, in the order of the sources.

    On a CPU, batches are searched side by side, the longest first, because one step of decoding is
    too small to be shared among threads. There are as many threads as PyTorch has, and they share
    the budget `decode.batch_tokens`. Each sample of a source counts.
    """
    lengths = sources.lengths
    device = next(model.parameters()).device
    numbers = range(len(lengths)) if numbers is None else numbers
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    workers = max(1, min(threads, decode.batch_tokens // LEAST_TOKENS))
    samples = n_best if decode.sample else 1  # of a source, decoded together
    plan = plan_in_order(lengths, max(1, decode.batch_tokens // workers // samples))[::-1]
    batches = [rows.tolist() for rows in plan]

    def arguments(rows: Rows) -> tuple[Any, ...]:
        source = sources.collate(rows, device)
        longest = [int(lengths[row, 0]) + decode.max_extra for row in rows]
        limits = torch.tensor([min(length, most or sys.maxsize) for length in longest])
        return model, source, limits, specials, decode, n_best, [numbers[row] for row in rows]

    searched = torch.inference_mode()(search)  # in each thread
    found: dict[int, list[Hypothesis]] = {}
    progress(0.0)
    results: Iterable[tuple[Rows, Found]] = (
        ((rows, searched(*arguments(rows))) for rows in batches)
        if min(workers, len(batches)) < 2
        else _side_by_side(searched, [(rows, arguments(rows)) for rows in batches], workers)
    )
    for rows, hypotheses in results:
        found.update(zip(rows, hypotheses, strict=True))
        progress(len(found) / len(lengths))
    return [found[row] for row in range(len(lengths))]


def _side_by_side(
    searched: Callable[..., Found], calls: Sequence[tuple[Rows, tuple[Any, ...]]], workers: int
) -> Iterator[tuple[Rows, Found]]:
    """Yield the rows and the result of each call when it is done, in `workers` threads."""
    workers, threads = min(workers, len(calls)), torch.get_num_threads()
    pool = ThreadPoolExecutor(
        workers, initializer=torch.set_num_threads, initargs=(threads // workers,)
    )
    try:
        started = {pool.submit(searched, *arguments): rows for rows, arguments in calls}
        for done in as_completed(started):
            yield started[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # the workers also changed the number for future threads
