"""How soon a model of tinyshakespeare is as good as nanoGPT's on a CPU: see README.md.

nanoGPT's CPU setting in plain PyTorch (4 layers, 4 heads, width 128, context 64, 12 windows, 2,000
updates; its README says: validation loss 1.88) beside `crosshead train tinyshakespeare`. Both are
scored on all validation characters, in windows of 64 without overlap, and take turns.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from harness import (
    CORES,
    ROOT,
    Answer,
    PeakMemory,
    Settings,
    Worker,
    data_folder,
    machine,
    serve,
    spread,
    table,
    take_turns,
)
from torch import Tensor, nn
from torch.nn import functional as F

CONTEXT, ROWS, WIDTH, HEADS, LAYERS = 64, 12, 128, 4, 4

PLAIN, AUTOCAST, OURS = "plain PyTorch, float32", "plain PyTorch, autocast", "crosshead"


class PlainLayer(nn.Module):
    """A pre-norm layer of causal self-attention, without biases, as GPT-2's."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(WIDTH, bias=False)
        self.norm_inner = nn.LayerNorm(WIDTH, bias=False)
        self.packed = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)
        self.inner = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.outer = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """`B T D` to `B T D`."""
        packed = self.packed(self.norm_attention(x)).unflatten(-1, (3, HEADS, -1))
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(seen.transpose(1, 2).flatten(2))
        return x + self.outer(F.gelu(self.inner(self.norm_inner(x))))


class PlainModel(nn.Module):
    """Learned positions, tied embeddings, weights of standard deviation 0.02."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.Sequential(*(PlainLayer() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                branch = name.endswith(("output.weight", "outer.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * LAYERS) if branch else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the token after each: `B T` to `B T V`."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return self.norm(self.layers(x)) @ self.tokens.weight.T


def start(settings: Settings, memory: PeakMemory) -> Answer:
    """A side that trains from the beginning whenever it is asked."""
    memory.reset()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if settings["side"] == OURS:
            return _ours(settings, request["seed"])
        loss, seconds = _plain(settings, request["seed"], autocast=settings["side"] == AUTOCAST)
        return {"seconds": seconds, "loss": loss}

    return answer


def _plain(settings: Settings, seed: int, *, autocast: bool) -> tuple[float, float]:
    """The validation loss of nanoGPT's setting, and the seconds that its updates took."""
    text = Path(settings["text"]).read_text()
    places = {character: place for place, character in enumerate(sorted(set(text)))}
    ids = torch.tensor([places[character] for character in text])
    cut = int(0.9 * len(ids))
    training, valid = ids[:cut], ids[cut:]
    torch.manual_seed(seed)
    model = PlainModel(len(places))
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    updates = settings["updates"]

    def loss_of(windows: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = model(windows[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), windows[:, 1:].flatten())

    reach = torch.arange(CONTEXT + 1)
    began = time.perf_counter()
    for update in range(updates):
        share = min(1.0, max(0.0, (update - 100) / (updates - 100)))
        rate = (
            1e-3 * update / 100 if update < 100 else 1e-4 + 4.5e-4 * (1 + math.cos(math.pi * share))
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        begins = torch.randint(len(training) - CONTEXT, (ROWS, 1))
        loss = loss_of(training[begins + reach])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seconds = time.perf_counter() - began
    count = len(valid) - 1
    whole = count // CONTEXT * CONTEXT
    windows = torch.stack(
        [valid[first : first + CONTEXT + 1] for first in range(0, whole, CONTEXT)]
    )
    batches = [*windows.split(256), *([valid[None, whole:]] if whole < count else [])]
    with torch.no_grad():
        losses = [float(loss_of(some)) * some[:, 1:].numel() for some in batches]
    return sum(losses) / count, seconds


def _ours(settings: Settings, seed: int) -> dict[str, Any]:
    """The same of `crosshead train`, in a process of its own: its start counts."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [
                sys.executable, "-m", "crosshead", "train", settings["recipe"],
                "--text", settings["text"], "--out", out, "--force", "--seed", str(seed),
                "--threads", str(settings["threads"]),
                *(["--max-updates", str(settings["ours"])] if settings["ours"] else []),
            ],
            check=True, capture_output=True, cwd=ROOT,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        lines = [json.loads(line) for line in (Path(out) / "log.jsonl").read_text().splitlines()]
        card = (Path(out) / "README.md").read_text()
    precision = card.partition("| precision | ")[2].partition(" |")[0]
    valid = [line for line in lines if line["kind"] == "valid"]
    return {
        "seconds": seconds, "loss": valid[-1]["loss"], "training": lines[-1]["seconds"],
        "precision": precision,
    }  # fmt: skip


def main() -> None:
    options = _options()
    print("# A model of tinyshakespeare on a CPU\n")
    print(machine(), flush=True)
    text = options.text or data_folder() / "tinyshakespeare" / "input.txt"
    common = {"text": str(text), "updates": options.updates, "threads": options.threads,
              "recipe": options.recipe, "ours": options.ours}  # fmt: skip
    workers = {side: Worker({**common, "side": side}) for side in options.sides}
    answers = take_turns(workers, options.rounds, lambda number: {"seed": number + 1})
    for worker in workers.values():
        worker.close()
    rows = []
    for side, found in answers.items():
        losses = [each["loss"] for each in found]
        rows.append([side, spread([each["seconds"] for each in found], 1), spread(losses, 3)])
    print(table(["side", "seconds", "validation loss"], rows))
    if OURS in answers:
        training = [each["training"] for each in answers[OURS]]
        print(
            "crosshead's seconds are those of the whole command, in "
            f"{answers[OURS][0]['precision']}; in training {spread(training, 1)}. Those of plain "
            "PyTorch are of its updates alone."
        )
        for side in (PLAIN, AUTOCAST):
            if side in answers:
                pairs = zip(answers[side], answers[OURS], strict=True)
                ratios = [a["seconds"] / b["seconds"] for a, b in pairs]
                print(f"- {side} / crosshead: **{spread(ratios, 2)}**")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    add = parser.add_argument
    add("--text", type=Path, help="instead of tinyshakespeare/input.txt in the data folder")
    add("--recipe", default="tinyshakespeare", help="of crosshead (%(default)s)")
    add("--rounds", type=int, default=3, help="turns, each with a seed of its own (%(default)s)")
    add("--updates", type=int, default=2000, help="of the plain model (%(default)s)")
    add("--ours", type=int, default=0, help="of crosshead, if not those of the recipe")
    add("--threads", type=int, default=CORES)
    add("--sides", nargs="+", default=[PLAIN, AUTOCAST, OURS], choices=[PLAIN, AUTOCAST, OURS])
    return parser.parse_args()


if __name__ == "__main__":
    serve(start) if sys.argv[1:] == ["--worker"] else main()
