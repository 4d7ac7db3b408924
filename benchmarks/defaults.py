"""The preset `auto` beside the fixed presets: corpora of several sizes, in budgets of minutes.

    .venv/bin/python benchmarks/defaults.py --folder runs/defaults [--pairs 2000 7000 29000]
        [--minutes 10 25 60] [--directions en-de de-en en-fr en-cs] [--presets auto tiny small]
        [--joined 1]

Every run is `crosshead train` with one thread on the first pairs of Multi30k; its validation set
chooses the weights. Then each model translates the test set, and the report compares every preset
with the best fixed one by paired bootstrap. Runs that are in the folder are not repeated, so the
command may be stopped and given again.

A preset may have settings after it: `tiny,train.cooldown=0.5`. `--joined 4` joins four captions to
a line, in every file, which gives long lines as in news. `--processor-time` counts minutes of the
processor in place of minutes of the clock, for a machine that does other work beside it.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from harness import machine
from trained import cells, compared, multi30k, trained, translated

from crosshead.evaluation.sacrebleu_metrics import ComparedScore
from crosshead.system.lines import read_lines


class Setting(NamedTuple):
    """What the presets are compared on."""

    direction: str
    pairs: int
    minutes: float
    joined: int
    """The number of captions in a line."""

    def name(self, preset: str) -> str:
        """The name of a run's directory."""
        return f"{self.direction}-{self.pairs}x{self.joined}-{self.minutes:g}-{preset}"

    def lines(self, name: str, language: str) -> list[str]:
        """The lines of a file of Multi30k, joined."""
        captions = read_lines(multi30k(f"{name}.{language}"))
        starts = range(0, len(captions) - self.joined + 1, self.joined)
        return [" ".join(captions[start : start + self.joined]) for start in starts]

    def file(self, name: str, language: str, folder: Path) -> Path:
        """A file in the folder with the lines of a file of Multi30k; `pairs` lines of `train`."""
        path = folder / f"{self.pairs}x{self.joined}-{name}.{language}"
        found = self.lines(name, language)[: self.pairs if name == "train" else None]
        path.write_text("".join(f"{line}\n" for line in found), "utf-8")
        return path


def main() -> None:
    """Train what is missing, translate, compare, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pairs", type=int, nargs="+", default=[2000, 7000, 29_000])
    parser.add_argument("--minutes", type=float, nargs="+", default=[10, 25, 60])
    parser.add_argument("--directions", nargs="+", default=["en-de", "de-en", "en-fr", "en-cs"])
    parser.add_argument("--presets", nargs="+", default=["auto", "tiny", "small"])
    parser.add_argument("--joined", type=int, nargs="+", default=[1])
    parser.add_argument("--test", default="test_2016_flickr", help="or val, to choose settings")
    parser.add_argument("--processor-time", action="store_true")
    given = parser.parse_args()
    settings = [
        Setting(*each)
        for each in product(given.directions, given.pairs, given.minutes, given.joined)
    ]
    print(machine(), flush=True)
    clock = "processor" if given.processor_time else "clock"
    print(f"\nBLEU of the beam search on {given.test}, 95 % interval; minutes of the {clock}\n")
    print(
        "| direction | pairs | captions in a line | minutes | preset | BLEU "
        "| p against the best fixed preset |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for setting in settings:
        outputs = {
            preset: output(setting, preset, given.folder, given.test, given.processor_time)
            for preset in given.presets
        }
        references = setting.lines(given.test, setting.direction.split("-")[1])
        fixed = [name for name in outputs if not name.startswith("auto")] or list(outputs)
        for row in rows(setting, compared(outputs, references, fixed)):
            print(row, flush=True)


def output(
    setting: Setting, preset: str, folder: Path, test: str, processor_time: bool
) -> list[str]:
    """The translations of the test set by a preset's model, which is trained if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / setting.name(preset)
    source, target = setting.direction.split("-")
    name, *settings = preset.split(",")
    arguments = [
        "--source", setting.file("train", source, folder),
        "--target", setting.file("train", target, folder),
        "--valid-source", setting.file("val", source, folder),
        "--valid-target", setting.file("val", target, folder),
        "--preset", name, "--max-minutes", setting.minutes, "--set", "threads=1",
        *(word for each in settings for word in ("--set", each)),
    ]  # fmt: skip
    trained(out, arguments, processor_time)
    return translated(out, setting.file(test, source, folder), out / f"{test}.{target}")


def rows(setting: Setting, scores: Sequence[ComparedScore]) -> Iterator[str]:
    """The lines of the table."""
    for score in scores:
        yield (
            f"| {setting.direction} | {setting.pairs:,} | {setting.joined} | {setting.minutes:g} "
            f"| {score.system} | {cells(score)} |"
        )


if __name__ == "__main__":
    main()
