"""What the benchmarks that train translators share: runs that are kept, and their comparison."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness import data_folder

from crosshead.evaluation.sacrebleu_metrics import ComparedScore, compare
from crosshead.system.lines import read_lines

PROGRAM = "import sys; from crosshead.cli import main; sys.exit(main())"
PROCESSOR_TIME = f"import time; time.perf_counter = time.process_time; {PROGRAM}"
"""The program with `--max-minutes` in minutes of the processor, for a machine that does other work
beside it. A run counts its minutes with `time.perf_counter`."""


def trained(out: Path, arguments: Sequence[object], processor_time: bool) -> None:
    """Run `crosshead train` unless its bundle is there.

    Args:
        out: The run directory.
        arguments: The arguments of the command, without `--out`.
        processor_time: True counts minutes of the processor instead of minutes of the clock.
    """
    if not (out / "model.safetensors").exists():
        program = PROCESSOR_TIME if processor_time else PROGRAM
        run(program, "train", *arguments, "--out", out, "--force")


def translated(bundle: Path, text: Path, output: Path) -> list[str]:
    """The translations of a text by a bundle, which are kept in `output`."""
    if not output.exists():
        run(PROGRAM, "translate", bundle, text, "--output", output)
    return read_lines(output)


def compared(
    outputs: dict[str, list[str]], references: Sequence[str], baselines: Sequence[str]
) -> list[ComparedScore]:
    """The BLEU of each output, by paired bootstrap against the best of the baselines.

    The best baseline comes first. A single output is not compared.
    """
    if len(outputs) < 2:
        [(name, translations)] = outputs.items()
        return compare({name: translations, "again": translations}, references, ["bleu"])[:1]
    scores = compare(dict(outputs), references, ["bleu"])
    best = max((each for each in scores if each.system in baselines), key=lambda each: each.value)
    order = [best.system, *(name for name in outputs if name != best.system)]
    return compare({name: outputs[name] for name in order}, references, ["bleu"])


def cells(score: ComparedScore) -> str:
    """The BLEU with its interval, and the p-value, as two cells of a table."""
    p = "" if score.p_value is None else f"{score.p_value:.3f}"
    return f"{score.value:.2f} [{score.low:.2f}, {score.high:.2f}] | {p}"


def multi30k(name: str) -> Path:
    """A file of the raw text of Multi30k."""
    return data_folder() / "multi30k" / "raw" / name


def run(program: str, *arguments: object) -> None:
    """Run crosshead; its messages go to standard error."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    subprocess.run(command, check=True, stdout=sys.stderr)
