"""What one layer of attention takes of time and memory by the length of a sequence: see README.md.

Every pattern and length is measured in a process of its own, one after the other: a pass forwards
and one backwards. Then a small model trains on one sequence of the greatest length, with a window.
"""

import argparse
import math
import sys
import time
from typing import Any

import torch
from harness import (
    Answer,
    PeakMemory,
    Settings,
    Worker,
    machine,
    mebibytes,
    progress,
    serve,
    spread,
    table,
)
from torch.nn import functional as F

from crosshead.attention.masks import EvaluatedMask, causal, dilated, fixed, strided, window
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.models.transformer import Transformer, TransformerConfig

D_MODEL, HEADS, VOCABULARY = 128, 4, 256
DILATION, COLUMNS = 4, 8

PATTERNS = ("full", "window", "dilated", "strided", "fixed")


def main() -> None:
    options = _options()
    print("# Attention to long sequences\n")
    print(machine(), flush=True)
    print(
        f"One layer of causal multi-head attention, d_model {D_MODEL}, {HEADS} heads, one sequence "
        f"in float32, {options.threads} threads: a pass forwards and one backwards, the mask "
        f"evaluated beforehand. Radius {options.radius}, dilation {DILATION}; the stride of "
        f"strided and fixed is the root of the length, as in Child et al. 2019, with {COLUMNS} "
        "columns. Memory is what the process grows by at its peak, mask included. Exponents are "
        "fitted by least squares to the logarithms, over the lengths shown, of the least time.\n"
    )
    rows = []
    for pattern in PATTERNS:
        lengths = [n for n in options.lengths if pattern != "full" or n <= options.longest_full]
        found = [_measured({**_common(options), "pattern": pattern, "length": n}, options.rounds)
                 for n in lengths]  # fmt: skip
        times = [min(answer["seconds"] for answer in answers[1:]) for answers in found]
        peaks = [answers[-1]["peak_bytes"] for answers in found]
        for n, answers, peak in zip(lengths, found, peaks, strict=True):
            seconds = spread([1000 * answer["seconds"] for answer in answers[1:]])
            rows.append([pattern, f"{n:,}", seconds, mebibytes(peak)])
        known = None not in peaks
        rows.append([
            pattern, "exponent", f"{exponent(lengths, times):.2f}",
            f"{exponent(lengths, peaks):.2f}" if known else "not measured",
        ])  # fmt: skip
    print(table(["pattern", "positions", "milliseconds", "peak memory, MiB"], rows), flush=True)
    _report_training(options)


def exponent(lengths: list[int], values: list[float]) -> float:
    """The power of the length by which the values grow; NaN for fewer than two."""
    if len(lengths) < 2:
        return math.nan
    x = [math.log(n) for n in lengths]
    y = [math.log(max(value, 1e-9)) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    products = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return products / sum((a - mean_x) ** 2 for a in x)


def _report_training(options: argparse.Namespace) -> None:
    """One model's updates on the longest sequence, and what dense weights would be alone."""
    length = max(options.lengths)
    settings = {**_common(options), "pattern": "train", "length": length}
    answers = _measured(settings, options.rounds)
    weights = length * length * HEADS * 4
    print(
        f"Training on one sequence of {length:,} positions: the decoder of a "
        f"Transformer, {options.layers} layers, window of radius {options.radius}, forwards, "
        "backwards and Adam:\n"
    )
    row = [
        spread([answer["seconds"] for answer in answers[1:]], 1),
        mebibytes(answers[-1]["peak_bytes"]),
        f"{answers[0]['loss']:.3f}",
        f"{answers[-1]['loss']:.3f}",
    ]
    print(table(["seconds an update", "peak memory, MiB", "first loss", "last loss"], [row]))
    print(
        f"Dense attention keeps the weights of every layer for the pass backwards: {length:,}^2 x "
        f"{HEADS} heads x 4 bytes = {weights / 2**30:.1f} GiB a layer, "
        f"{options.layers * weights / 2**30:.1f} GiB in all, and at its peak scores and gradients "
        "of the same size beside them."
    )


def _common(options: argparse.Namespace) -> Settings:
    return {"radius": options.radius, "threads": options.threads, "layers": options.layers}


def _measured(settings: Settings, rounds: int) -> list[dict[str, Any]]:
    """What a process of its own answers, round by round, the first of which warms up."""
    worker = Worker(settings)
    answers = [worker.ask() for _ in range(rounds + 1)]
    worker.close()
    progress(f"{settings['pattern']} {settings['length']}: {answers[-1]}")
    return answers


def mask_of(settings: Settings) -> EvaluatedMask:
    """The mask that the settings name, in blocks but for full attention."""
    length, radius = settings["length"], settings["radius"]
    stride = round(math.sqrt(length))
    if settings["pattern"] == "full":
        return causal.dense(length, length)
    pattern = {
        "window": window(radius),
        "dilated": dilated(radius, DILATION),
        "strided": strided(stride),
        "fixed": fixed(stride, COLUMNS),
    }[settings["pattern"]]
    return (causal & pattern).blocked(length)


def start(settings: Settings, memory: PeakMemory) -> Answer:
    """A layer, or a model that trains."""
    torch.manual_seed(1)
    return (_trains if settings["pattern"] == "train" else _attends)(settings, memory)


def _attends(settings: Settings, memory: PeakMemory) -> Answer:
    width = D_MODEL // HEADS
    layer = MultiHeadAttention(D_MODEL, HEADS, d_key=width, d_value=width)
    x = torch.randn(1, settings["length"], D_MODEL, requires_grad=True)
    few = x[:, :64].detach()
    layer(few, layer.project(few)).sum().backward()  # libraries are loaded and threads begun
    memory.reset()
    mask = mask_of(settings)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        layer(x, layer.project(x), mask).sum().backward()
        return {"seconds": time.perf_counter() - began}

    return answer


def _trains(settings: Settings, memory: PeakMemory) -> Answer:
    config = TransformerConfig(
        encoder_layers=1, decoder_layers=settings["layers"], d_model=D_MODEL, d_ff=4 * D_MODEL,
        heads=HEADS, dropout=0.0, norm="pre", pattern="window", radius=settings["radius"],
    )  # fmt: skip
    model = Transformer(config, VOCABULARY, VOCABULARY)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    nothing = torch.full((1, 1), 2)
    # A text with something to learn: every token follows from the one before.
    text = (torch.arange(settings["length"] + 1) * 7 % (VOCABULARY - 4) + 4)[None]
    memory.reset()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        logits = model(nothing, text[:, :-1])
        loss = F.cross_entropy(logits[0], text[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"seconds": time.perf_counter() - began, "loss": loss.item()}

    return answer


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    add = parser.add_argument
    add("--lengths", type=int, nargs="+", default=[1024, 2048, 4096, 8192, 16384])
    add("--longest-full", type=int, default=4096, help="of full attention (%(default)s)")
    add("--radius", type=int, default=128)
    add("--layers", type=int, default=2, help="of the model that trains (%(default)s)")
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=3, help="of each (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    serve(start) if sys.argv[1:] == ["--worker"] else main()
