"""The time of attention on a CPU as an equation and in PyTorch's fused form, by number of keys.

    python benchmarks/attention_speed.py [--rounds 7] [--threads 1]

Both forms compute the same inputs in turns, in one process, in float32. The report, in Markdown,
has the ratio of the times for each kind of mask, forwards alone and with the pass backwards.
`attend` takes the fused form from `FUSED_FROM` keys on, from `MASKED_FUSED_FROM` with a mask, and
for `FEW_QUERIES`.
"""

import argparse
import statistics
import time
from itertools import product

import torch
from harness import machine, table
from torch import Tensor

from crosshead.attention.attend import Backend, attend, explicit, sdpa

POSITIONS = 4096
"""Positions of a batch: a longer sequence has fewer rows."""

STEPS = ((4, 1, 4), (4, 1, 16), (16, 1, 16), (64, 1, 16), (256, 1, 16), (160, 1, 64))
"""Rows, queries and keys of steps of decoding."""

LENGTHS = (16, 32, 48, 64, 128, 256)
"""Queries and keys of whole sequences."""

SHAPES = ((8, 16), (4, 32), (4, 64))
"""Heads, and the width of each."""

MASKS = ("none", "padding", "causal")


def mask_of(kind: str, rows: int, queries: int, keys: int) -> Tensor | None:
    """A mask of a kind; padding leaves at least half of each row."""
    if kind == "none":
        return None
    if kind == "padding":
        lengths = torch.randint(keys // 2, keys + 1, (rows, 1))
        return (torch.arange(keys) < lengths)[:, None, None]
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)[None, None]


def seconds(inputs: list[Tensor], mask: Tensor | None, backend: Backend, training: bool) -> float:
    """The time of one call."""
    began = time.perf_counter()
    with torch.set_grad_enabled(training):
        output = attend(*inputs, mask=mask, backend=backend)
    if training:
        output.sum().backward()
    return time.perf_counter() - began


def ratios(
    shape: tuple[int, int], case: tuple[int, int, int], kind: str, training: bool, rounds: int
) -> list[float]:
    """The time of the equation over that of the fused form, round by round."""
    (heads, width), (rows, queries, keys) = shape, case
    inputs = [
        torch.randn(rows, n, heads, width).transpose(1, 2).requires_grad_(training)
        for n in (queries, keys, keys)
    ]
    mask = mask_of(kind, rows, queries, keys)
    found = []
    for number in range(rounds + 1):
        order = (explicit, sdpa) if number % 2 else (sdpa, explicit)
        times = {backend: seconds(inputs, mask, backend, training) for backend in order}
        if number:  # the first round chooses kernels
            found.append(times[explicit] / times[sdpa])
    return found


def main(rounds: int, threads: int) -> None:
    """Measure all shapes and print a table."""
    print("# Attention as an equation over its fused form\n")
    print(machine(), flush=True)
    torch.set_num_threads(threads)
    print(f"{threads} threads, {POSITIONS:,} positions a batch, {rounds} rounds: median (range)\n")
    header = ["heads x width", "rows x queries", "keys", "mask", "forwards", "and backwards"]
    rows = []
    cases = [*STEPS, *((POSITIONS // length, length, length) for length in LENGTHS)]
    for shape, case, kind in product(SHAPES, cases, MASKS):
        cells = []
        for training in (False, True):
            found = ratios(shape, case, kind, training, rounds)
            middle = statistics.median(found)
            cells.append(f"{middle:.2f} ({min(found):.2f}–{max(found):.2f})")
        sizes = (f"{shape[0]} x {shape[1]}", f"{case[0]} x {case[1]}", str(case[2]))
        rows.append([*sizes, kind, *cells])
    print(table(header, rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="Rounds to measure.")
    parser.add_argument("--threads", type=int, default=1, help="Threads of each call.")
    given = parser.parse_args()
    main(given.rounds, given.threads)
