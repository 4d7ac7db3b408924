"""Time to quality: BLEU after ten minutes of CPU time, beside Joey NMT and Marian.

    taskset -c 1 .venv/bin/python benchmarks/time_to_quality.py --folder runs/time-to-quality \
        --joey JOEY/bin/python --marian MARIAN/bin/python > time_to_quality.md

Every system trains on the first pairs of Multi30k, English to German, on one thread, and chooses
its checkpoint on the validation set. Its tokenizer and its validations count. When its CPU seconds
are spent, that checkpoint translates the validation set, which does not count. All translations are
scored with sacreBLEU against the raw references.

A system may have settings after it (`joey,width=128`), to look for the best ones in `--minutes 3`.
`--folder` keeps every run, and what is done there is not repeated.
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TextIO

import numpy as np
from harness import machine, progress, table
from safetensors import safe_open
from trained import PROCESSOR_TIME, PROGRAM, multi30k

from crosshead.evaluation.sacrebleu_metrics import metric_scores
from crosshead.system.lines import read_lines

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
MESSAGES = "messages.log"
START = 6
"""Seconds of CPU time that Python and PyTorch take before `crosshead train` begins to count."""


JOEY = """\
name: multi30k
model_dir: model
use_cuda: False
random_seed: 1
data:
  train: train
  dev: val
  dataset_type: plain
  sample_dev_subset: 200
  src: &side
    lang: en
    level: bpe
    voc_file: pieces.vocab
    tokenizer_type: sentencepiece
    tokenizer_cfg: {{model_file: pieces.model, pretokenizer: none}}
  trg: {{<<: *side, lang: de}}
testing:
  load_model: model/best.ckpt
  beam_size: 5
  beam_alpha: 1.0
  batch_size: 1024
  batch_type: token
  eval_metrics: [bleu]
training:
  optimizer: adamw
  normalization: tokens
  adam_betas: [0.9, 0.98]
  scheduling: noam
  learning_rate_factor: {factor}
  learning_rate_warmup: {warmup}
  learning_rate_min: 0.0
  clip_grad_norm: 1.0
  label_smoothing: 0.1
  batch_size: {batch}
  batch_type: token
  early_stopping_metric: bleu
  epochs: 10000
  validation_freq: {validation}
  logging_freq: 50
model:
  tied_embeddings: True
  tied_softmax: True
  encoder: &stack
    type: transformer
    num_layers: {layers}
    num_heads: {heads}
    embeddings: {{embedding_dim: {width}, scale: True, dropout: 0.0}}
    hidden_size: {width}
    ff_size: {feed}
    dropout: {dropout}
    layer_norm: pre
  decoder: *stack
"""


class System:
    """A toolkit that trains in a folder, which has the text.

    Args:
        python: The interpreter that has it.
        folder: The folder of the run.
        seconds: The CPU time of the training.
        changes: Settings that replace those of `settings`.
    """

    settings: dict[str, str] = {}

    def __init__(
        self, python: str, folder: Path, seconds: float, changes: dict[str, str] | None = None
    ) -> None:
        self.python, self.folder, self.seconds = python, folder, seconds
        self.chosen = {**self.settings, **(changes or {})}

    def training(self) -> list[list[str]]:
        """Return the commands that train, in their order."""
        raise NotImplementedError

    def translation(self) -> list[str]:
        """Return the command that translates standard input."""
        raise NotImplementedError

    def counts(self) -> tuple[int, int]:
        """Return the number of updates and of parameters."""
        raise NotImplementedError

    def logged(self, log: str, pattern: str) -> int:
        """Return the last number in a log that follows a pattern."""
        return int(re.findall(pattern, (self.folder / log).read_text("utf-8"))[-1])


class Crosshead(System):
    """`crosshead train` with its default preset, `auto`."""

    def training(self) -> list[list[str]]:
        """Return the command, which ends by itself."""
        named = (
            "train --source train.en --target train.de --valid-source val.en --valid-target val.de "
            f"--out run --force --max-minutes {(self.seconds - START) / 60:g} --set threads=1"
        )
        changes = [f"--set={name}={value}" for name, value in self.chosen.items()]
        return [[self.python, "-c", PROCESSOR_TIME, *named.split(), *changes]]

    def translation(self) -> list[str]:
        """Return the command, with the search of the bundle."""
        return [self.python, "-c", PROGRAM, "translate", "run"]

    def counts(self) -> tuple[int, int]:
        """Return the last update of the log, and the size of the weights."""
        with safe_open(self.folder / "run" / "model.safetensors", "np") as weights:
            sizes = [weights.get_tensor(name).size for name in weights.keys()]  # noqa: SIM118
        return self.logged("run/log.jsonl", r'"update": (\d+)'), sum(sizes)


class Joey(System):
    """Joey NMT with SentencePiece, as its configurations for small data."""

    settings = {
        "width": "128",
        "feed": "512",
        "layers": "4",
        "heads": "4",
        "dropout": "0.1",
        "vocabulary": "4000",
        "batch": "512",
        "warmup": "400",
        "factor": "0.5",
        "validation": "300",
    }
    # As Joey's `scripts/build_vocab.py`, which its package lacks.
    pieces = (
        "import sentencepiece; sentencepiece.SentencePieceTrainer.train(input='train.en,train.de', "
        "model_prefix='pieces', vocab_size={vocabulary}, character_coverage=1.0, num_threads=1, "
        "unk_id=0, pad_id=1, bos_id=2, eos_id=3, vocabulary_output_piece_score=False)"
    )

    def training(self) -> list[list[str]]:
        """Write the configuration, and return the commands for tokenizer and model."""
        (self.folder / "joey.yaml").write_text(JOEY.format(**self.chosen), "utf-8")
        return [
            [self.python, "-c", self.pieces.format(**self.chosen)],
            [self.python, "-m", "joeynmt", "train", "joey.yaml", "--skip-test"],
        ]

    def translation(self) -> list[str]:
        """Return the command, with a beam of 5 as in the configurations of Joey."""
        return [self.python, "-m", "joeynmt", "translate", "joey.yaml"]

    def counts(self) -> tuple[int, int]:
        """Return the last step and the parameters of the log."""
        log = "model/train.log"
        return self.logged(log, r"Step: +(\d+)"), self.logged(log, r"Total params: (\d+)")


class Marian(System):
    """Marian, in the wheel `pymarian`."""

    settings = {
        "type": "transformer",
        "dim-emb": "128",
        "enc-depth": "4",
        "dec-depth": "4",
        "transformer-heads": "4",
        "transformer-dim-ffn": "512",
        "transformer-dropout": "0.1",
        "label-smoothing": "0.1",
        "dim-vocabs": "4000 4000",
        "mini-batch-words": "500",
        "learn-rate": "0.001",
        "lr-warmup": "400",
        "lr-decay-inv-sqrt": "400",
        "optimizer-params": "0.9 0.98 1e-09",
        "clip-norm": "1",
        "exponential-smoothing": "0.005",
        "valid-freq": "300",
    }
    fixed = (
        "--model model.npz --train-sets train.en train.de --vocabs pieces.spm pieces.spm "
        "--tied-embeddings-all --cost-type ce-mean-words --mini-batch 1000 --maxi-batch 100 "
        "--valid-sets val.en val.de --valid-metrics bleu-detok --beam-size 1 --keep-best "
        "--overwrite --early-stopping 0 --disp-freq 50 --save-freq 100000 --tempdir . --seed 1 "
        "--quiet --log marian.log --cpu-threads 1 --workspace 1000"
    )
    program = "import sys, _pymarian; _pymarian.main(sys.argv[1:])"

    def training(self) -> list[list[str]]:
        """Return the command, which also learns the pieces of SentencePiece."""
        options = " ".join(f"--{name} {value}" for name, value in self.chosen.items())
        return [[self.python, "-c", self.program, "train", *self.fixed.split(), *options.split()]]

    def translation(self) -> list[str]:
        """Return the command, with a beam of 6 as in the examples of Marian."""
        decoder = "model.npz.best-bleu-detok.npz.decoder.yml"
        options = f"decode -c {decoder} --beam-size 6 --normalize 0.6 --quiet"
        size = "--cpu-threads 1 --mini-batch 32 --maxi-batch 32 --workspace 1000"
        return [self.python, "-c", self.program, *options.split(), *size.split()]

    def counts(self) -> tuple[int, int]:
        """Return the last update of the log, and the size of the weights."""
        with np.load(self.folder / "model.npz.best-bleu-detok.npz") as weights:
            sizes = [weights[name].size for name in weights.files if "special:" not in name]
        return self.logged("marian.log", r"Up\. (\d+)"), sum(sizes)


SYSTEMS = {"crosshead": Crosshead, "joey": Joey, "marian": Marian}


def main() -> None:
    """Train and translate what is missing, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS))
    parser.add_argument("--pairs", type=int, nargs="+", default=[7000, 29_000])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--joey", help="a Python that has Joey NMT")
    parser.add_argument("--marian", help="a Python that has pymarian")
    given = parser.parse_args()
    pythons = {"crosshead": sys.executable, "joey": given.joey, "marian": given.marian}
    rows = []
    for pairs, name in product(given.pairs, given.systems):
        kind, *changes = name.split(",")
        if not pythons[kind]:
            parser.error(f"{kind} needs --{kind} PYTHON")
        folder = given.folder.absolute() / f"{name}-{pairs}-{given.minutes:g}"
        changed = dict(change.split("=") for change in changes)
        system = SYSTEMS[kind](pythons[kind], folder, 60 * given.minutes, changed)
        rows.append([name, f"{pairs:,}", *row(system, pairs)])
        progress(f"{rows[-1]}")
    header = "system, pairs, BLEU (95 % interval), chrF2, updates, parameters, CPU seconds"
    print(machine(), table(header.split(", "), rows), sep="\n")


def row(system: System, pairs: int) -> list[str]:
    """Return the cells of a system, which is trained if its folder lacks it."""
    done = system.folder / "seconds.json"
    if not done.exists():
        shutil.rmtree(system.folder, ignore_errors=True)
        write_text(system.folder, pairs)
        seconds = 0.0
        for command in system.training():
            seconds += spend(command, system.folder, system.seconds - seconds)
        done.write_text(json.dumps(seconds), "utf-8")
    output = system.folder / "val.out"
    if not output.exists():
        begun = output.with_suffix(".part")
        with (system.folder / "val.en").open() as text, begun.open("w") as translations:
            if run(system.translation(), system.folder, text, translations):
                raise SystemExit(f"no translations; see {system.folder / MESSAGES}")
        begun.rename(output)
    references = read_lines(system.folder / "val.de")
    bleu, chrf = metric_scores(read_lines(output), [references], ["bleu", "chrf"], None)
    score = f"{bleu.value:.1f} ({bleu.low:.1f}–{bleu.high:.1f})"
    counts = [f"{count:,}" for count in system.counts()]
    return [score, f"{chrf.value:.1f}", *counts, f"{json.loads(done.read_text('utf-8')):.0f}"]


def write_text(folder: Path, pairs: int) -> None:
    """Write the first pairs of the training set, and the validation set."""
    folder.mkdir(parents=True)
    for name, language in product(("train", "val"), ("en", "de")):
        lines = read_lines(multi30k(f"{name}.{language}"))[: pairs if name == "train" else None]
        (folder / f"{name}.{language}").write_text("\n".join([*lines, ""]), "utf-8")


def spend(command: Sequence[str], folder: Path, seconds: float) -> float:
    """Run a command until its CPU seconds are spent, and return those of it and its children.

    crosshead stops by itself. The others are stopped, and keep the checkpoints that they have.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (round(seconds), round(seconds) + 5))

    before = children_seconds()
    code = run(command, folder, limit=None if PROCESSOR_TIME in command else limit)
    if code not in (0, -signal.SIGXCPU):
        raise SystemExit(f"{command[:4]} ended with {code}; see {folder / MESSAGES}")
    return children_seconds() - before


def children_seconds() -> float:
    """Return the CPU time of all children that have ended."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def run(
    command: Sequence[str],
    folder: Path,
    text: TextIO | None = None,
    output: TextIO | None = None,
    limit: Callable[[], None] | None = None,
) -> int:
    """Run a command in a folder on one thread, and return its exit code."""
    with (folder / MESSAGES).open("a") as log:
        environment = {**os.environ, **ONE_THREAD}
        return subprocess.run(
            command, cwd=folder, env=environment, stdin=text, stdout=output or log, stderr=log,
            preexec_fn=limit, check=False,
        ).returncode  # fmt: skip


if __name__ == "__main__":
    main()
