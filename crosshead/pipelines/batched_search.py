"""Search for many sentences: batches of similar length, several side by side on a CPU."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import torch

from crosshead.data.batching import Example, collate, example_lengths, plan_in_order
from crosshead.decoding.search import DecodeConfig, Hypothesis, Specials, search
from crosshead.models.base import SequenceModel

LEAST_TOKENS = 1024
"""The smallest token budget of a batch when threads share the budget."""

Rows = list[int]
Found = list[list[Hypothesis]]


def search_all(
    model: SequenceModel,
    sources: Sequence[Sequence[int]],
    specials: Specials,
    decode: DecodeConfig,
    n_best: int = 1,
    *,
    numbers: Sequence[int] | None = None,
    most: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Found:
    """Search for the outputs of many sources.

    On a CPU several batches are searched side by side, the longest first, in as many threads as
    PyTorch uses. The threads share the budget `decode.batch_tokens`. The steps of decoding are too
    small to use several threads themselves.

    Args:
        model: The model.
        sources: Token ids of each source, without the end.
        specials: The special tokens.
        decode: The settings of the search.
        n_best: The number of hypotheses per source.
        numbers: A number for each source, as for `search`.
        most: The largest number of tokens of an output, or None.
        progress: A callback that gets the finished share, from 0 to 1.

    Returns:
        The hypotheses of each source, in the order of the sources.
    """
    examples: list[Example] = [(source, ()) for source in sources]
    lengths = example_lengths(examples)
    device = next(model.parameters()).device
    numbers = range(len(sources)) if numbers is None else numbers
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    workers = max(1, min(threads, decode.batch_tokens // LEAST_TOKENS))
    plan = plan_in_order(lengths, max(1, decode.batch_tokens // workers))[::-1]

    def searched(rows: Rows) -> Found:
        longest = [int(lengths[row, 0]) + decode.max_extra for row in rows]
        with torch.inference_mode():  # the mode is set per thread
            return search(
                model,
                collate(examples, rows).source.to(device),
                torch.tensor([min(length, most or sys.maxsize) for length in longest]),
                specials,
                decode,
                n_best,
                [numbers[row] for row in rows],
            )

    found: dict[int, list[Hypothesis]] = {}
    progress(0.0)
    batches = [rows.tolist() for rows in plan]
    for rows, hypotheses in _side_by_side(searched, batches, min(workers, len(batches))):
        found.update(zip(rows, hypotheses, strict=True))
        progress(len(found) / len(sources))
    return [found[row] for row in range(len(sources))]


def _side_by_side(
    searched: Callable[[Rows], Found], batches: Sequence[Rows], workers: int
) -> Iterator[tuple[Rows, Found]]:
    """Yield every batch with its result when it is finished, computed in `workers` threads."""
    if workers < 2:
        for rows in batches:
            yield rows, searched(rows)
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(
        workers, initializer=torch.set_num_threads, initargs=(threads // workers,)
    )
    try:
        started = {pool.submit(searched, rows): rows for rows in batches}
        for done in as_completed(started):
            yield started[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # the workers also changed the number for future threads
