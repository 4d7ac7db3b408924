"""Precision and recall of the checks of `crosshead data check`, on Multi30k with known damage.

Five of a hundred pairs are misaligned, half of them in one shifted stretch and half swapped at
random; two have their target in another language; three are copies of other pairs, and one of a
hundred is a copy with a small change. Another one of a hundred has a target that is cut to its
first third. With --train-minutes the script also trains on the clean, the damaged and the cleaned
text, and prints BLEU.

    python benchmarks/data_check.py
    python benchmarks/data_check.py --sizes 600,2000,7000 --foreign 0.01,0.02,0.05,0.1,0.2
    python benchmarks/data_check.py --sizes 2000,7000 --cut 0.02,0.05,0.1,0.15,0.2,0.25
    python benchmarks/data_check.py --sizes "" --large 1000000
    python benchmarks/data_check.py --train-minutes 10 [--train-pairs 7000] [--processor-time]

The trainings use one thread. Runs that are in the folder are not repeated, so the command may be
stopped and given again.
"""

import argparse
import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness import machine
from trained import cells, compared, multi30k, trained, translated

from crosshead.addons.checks.check import DataReport, check_pairs
from crosshead.addons.checks.files import check_files, write_files
from crosshead.addons.checks.forms import odd_lengths
from crosshead.addons.checks.language import foreign, letters_of
from crosshead.system.lines import read_lines
from crosshead.text.parallel.pairs import Origin
from crosshead.text.parallel.section import DataConfig

SHARES = {
    "misaligned": 0.05, "language": 0.02, "duplicate": 0.03, "near-duplicate": 0.01, "length": 0.01,
}  # fmt: skip
"""The share of damaged pairs of each kind."""

INTRUDERS = {"de": "fr", "fr": "de", "cs": "de"}
"""The language of the damaged targets, by the language of the others."""


DRAWS = 5
"""The number of texts for each cell of the tables of foreign and of cut targets."""


class Damaged(NamedTuple):
    """A text with known damage."""

    source: list[str]
    target: list[str]
    kinds: list[str]
    """The kind of damage of each pair, or ""."""


def damaged(source: list[str], target: list[str], intruder: list[str], seed: int) -> Damaged:
    """Return the text with damage. `intruder` has the targets in another language."""
    rng = np.random.default_rng(seed)
    count = len(source)
    target, kinds = list(target), [""] * count

    def mark(rows: list[int], kind: str) -> None:
        for row in rows:
            kinds[row] = kind

    def drawn(share: float) -> list[int]:
        free = np.flatnonzero([not kind for kind in kinds])
        return rng.permutation(free)[: round(share * count)].tolist()

    half = round(SHARES["misaligned"] * count / 2)
    first = int(rng.integers(count // 10, count - 2 * half))
    stretch = list(range(first, first + half))
    rotate(target, stretch)
    mark(stretch, "misaligned")
    swapped = drawn(SHARES["misaligned"] / 2)
    rotate(target, swapped)
    mark(swapped, "misaligned")
    for row in (rows := drawn(SHARES["language"])):
        target[row] = intruder[row]
    mark(rows, "language")
    for row in (rows := drawn(SHARES["length"])):
        target[row] = third(target[row])
    mark(rows, "length")
    pairs = list(zip(source, target, kinds, strict=True))
    copied = drawn(SHARES["duplicate"] + SHARES["near-duplicate"])
    exact = round(SHARES["duplicate"] * count)
    copies = [(source[row], target[row], "duplicate") for row in copied[:exact]]
    copies += [changed(source[row], target[row], rng) for row in copied[exact:]]
    # Each copy goes to a random place after its original, outside the shifted stretch.
    places = [int(rng.integers(row + 1, count + 1)) for row in copied]
    places = [first + half if first < place < first + half else place for place in places]
    for place, copy in sorted(zip(places, copies, strict=True), reverse=True):
        pairs.insert(place, copy)
    return Damaged(*map(list, zip(*pairs, strict=True)))


def third(line: str) -> str:
    """Return the first third of a line."""
    return line[: max(1, len(line) // 3)]


def rotate(target: list[str], rows: list[int]) -> None:
    """Give each row the target of the next one."""
    values = [target[row] for row in rows]
    for row, value in zip(rows, values[1:] + values[:1], strict=True):
        target[row] = value


def changed(source: str, target: str, rng: np.random.Generator) -> tuple[str, str, str]:
    """Return a near-duplicate: other case and punctuation, a missing word, or a typing error."""
    words = target.split()
    place = int(rng.integers(len(words)))
    way = int(rng.integers(3))
    if way == 0:
        return source.lower().rstrip(".") + " !", target.rstrip("."), "near-duplicate"
    word = words[place]
    words[place : place + 1] = [] if way == 1 else [word[1:] + word[:1] + "x"]
    return source, " ".join(words), "near-duplicate"


def measured(text: Damaged, report: DataReport) -> list[tuple[str, int, int, int]]:
    """Return kind, number of damaged pairs, of suspect pairs, and of suspect damaged pairs."""
    rows = []
    for kind in SHARES:
        truth = {row for row, found in enumerate(text.kinds) if found == kind}
        found = {suspect.row for suspect in report.suspects if suspect.kind == kind}
        rows.append((kind, len(truth), len(found), len(truth & found)))
    anything = {row for row, kind in enumerate(text.kinds) if kind}
    found = set(report.rows())
    return [*rows, ("any", len(anything), len(found), len(anything & found))]


def checked(source: list[str], target: list[str]) -> tuple[DataReport, float]:
    """Return the report on a text, and the seconds of processor time."""
    began = time.process_time()
    report = check_pairs((source, target), lambda row: Origin("train", row + 1))
    return report, time.process_time() - began


def precision_and_recall(languages: list[str], sizes: list[int], seed: int) -> None:
    """Print a table for each language pair and size."""
    for language in languages:
        sides = [read_lines(multi30k(f"train.{name}")) for name in ("en", language)]
        intruder = read_lines(multi30k(f"train.{INTRUDERS[language]}"))
        for size in sizes:
            clean = [side[:size] for side in sides]
            text = damaged(clean[0], clean[1], intruder[:size], seed)
            report, seconds = checked(text.source, text.target)
            untouched = checked(*clean)[0].counts()
            print(f"\nen-{language}, {size:,} pairs, seed {seed}: {seconds:.1f} s of one core\n")
            print("| kind | damaged | found | right | precision | recall | in the clean text |")
            print("|---|---|---|---|---|---|---|")
            for kind, truth, found, right in measured(text, report):
                shown = f"{right / max(found, 1):.1%} | {right / truth:.1%}"
                clean_count = sum(untouched.values()) if kind == "any" else untouched.get(kind, 0)
                print(f"| {kind} | {truth:,} | {found:,} | {right:,} | {shown} | {clean_count} |")
            others = {kind: n for kind, n in report.counts().items() if kind not in SHARES}
            print(f"\nOther kinds found: {others or 'none'}", flush=True)


Find = Callable[[list[list[str]], set[int]], set[int]]
"""A function that damages some targets and returns the suspect rows.

It takes sources, targets and the targets in another language, and the rows to damage.
"""


def by_share(
    languages: list[str], sizes: list[int], shares: list[float], seed: int, find: Find
) -> None:
    """Print precision and recall by the number of pairs and the share of damaged targets.

    Each cell counts the damaged targets of `DRAWS` stretches of the text.
    """
    print("\n| targets | pairs | " + " | ".join(f"{share:.0%}" for share in shares) + " |")
    print("|---|---|" + "---|" * len(shares))
    for language in languages:
        other = INTRUDERS[language]
        texts = [read_lines(multi30k(f"train.{name}")) for name in ("en", language, other)]
        name = f"{language}, {other}" if find is foreign_targets else language
        for size in sizes:
            columns = []
            for share in shares:
                rng = np.random.default_rng(seed)
                drawn = [_counts(texts, size, share, rng, find) for _ in range(DRAWS)]
                truth, found, right = map(sum, zip(*drawn, strict=True))
                columns.append(f"{right / max(found, 1):.1%} / {right / max(truth, 1):.1%}")
            print(f"| {name} | {size:,} | {' | '.join(columns)} |", flush=True)


def _counts(
    texts: list[list[str]], size: int, share: float, rng: np.random.Generator, find: Find
) -> tuple[int, int, int]:
    """Return the numbers of damaged targets, of suspect targets, and of suspect damaged targets."""
    first = int(rng.integers(len(texts[0]) - size + 1))
    stretch = [text[first : first + size] for text in texts]
    rows = set(rng.permutation(size)[: round(share * size)].tolist())
    found = find(stretch, rows)
    return len(rows), len(found), len(found & rows)


def foreign_targets(texts: list[list[str]], rows: set[int]) -> set[int]:
    """Return the suspect rows of a text with some targets in another language."""
    source, target, intruder = texts
    mixed = [intruder[row] if row in rows else line for row, line in enumerate(target)]
    letters = (letters_of(side) for side in (mixed, source))
    return {suspect.row for suspect in foreign(*letters, "target") or []}


def cut_targets(texts: list[list[str]], rows: set[int]) -> set[int]:
    """Return the suspect rows of a text with some targets cut to their first third."""
    source, target, _ = texts
    cut = [third(line) if row in rows else line for row, line in enumerate(target)]
    return {suspect.row for suspect in odd_lengths(source, cut, np.arange(len(cut)))}


def large(count: int, seed: int) -> None:
    """Print time and memory for a corpus of `count` pairs, made from the captions of Multi30k.

    One pair of two has a caption with a number in front, and the others have two captions that are
    drawn at random, so that nearly all lines are different.
    """
    sides = [read_lines(multi30k(f"train.{name}")) for name in ("en", "de")]
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(sides[0]), size=(count, 2))
    seconds: dict[str, float] = {}
    steps = [("reading", time.process_time())]

    def advance(share: float, step: str) -> None:
        name, began = steps[-1]
        steps.append((step, time.process_time()))
        seconds[name] = seconds.get(name, 0) + steps[-1][1] - began

    with tempfile.TemporaryDirectory() as folder:
        names = [f"{folder}/train.{language}" for language in ("en", "de")]
        for side, name in zip(sides, names, strict=True):
            with open(name, "w", encoding="utf-8") as file:
                for n, (one, two) in enumerate(rows):
                    file.write(f"{side[one] if n % 2 else n} {side[two]}\n")
        size = sum(Path(name).stat().st_size for name in names)
        with most_memory() as most:
            began = steps[0][1]
            config = DataConfig(source=names[:1], target=names[1:])
            report, text = check_files(config, (), print, advance)
            advance(1.0, "writing")
            write_files(report, text, Path(folder, "out"), apply=True)
            advance(1.0, "the end")
            total = time.process_time() - began
    print(f"\n{count:,} pairs, {size / 1e6:,.0f} MB of text: {total:.0f} s of one core in all\n")
    print("own memory at most:", f"{most[0] / 1e6:,.0f} MB, {most[1] / 1e6:,.0f} MB before")
    print("".join(f"- {step}: {each:.0f} s\n" for step, each in seconds.items()))
    print(f"found {report.counts()}")


@contextlib.contextmanager
def most_memory() -> Iterator[list[int]]:
    """Measure the most memory of this process in a block, without mapped files, and that before."""
    found = [own_memory()] * 2
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            found[0] = max(found[0], own_memory())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def own_memory() -> int:
    """Return the anonymous memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def train(folder: Path, size: int, minutes: float, seed: int, processor_time: bool) -> None:
    """Train on the clean, the damaged and the cleaned text, and compare BLEU on the test set."""
    sides = [read_lines(multi30k(f"train.{name}"))[:size] for name in ("en", "de")]
    text = damaged(sides[0], sides[1], read_lines(multi30k("train.fr"))[:size], seed)
    report, _ = checked(text.source, text.target)
    texts = {
        "clean": sides, "damaged": (text.source, text.target), "cleaned": report.cleaned(),
    }  # fmt: skip
    outputs = {}
    for name, pair in texts.items():
        place = folder / f"{name}-{size}-{minutes:g}-{seed}"
        place.mkdir(parents=True, exist_ok=True)
        for side, language in zip(pair, ("en", "de"), strict=True):
            lines = "".join(f"{line}\n" for line in side)
            (place / f"train.{language}").write_text(lines, "utf-8")
        arguments = [
            "--source", place / "train.en", "--target", place / "train.de",
            "--valid-source", multi30k("val.en"), "--valid-target", multi30k("val.de"),
            "--max-minutes", minutes, "--threads", 1, "--seed", seed,
        ]  # fmt: skip
        trained(place / "run", arguments, processor_time)
        test = multi30k("test_2016_flickr.en")
        outputs[name] = translated(place / "run", test, place / "test_2016_flickr.de")
    print("\n| text | pairs | BLEU on test_2016_flickr | p against the clean text |")
    print("|---|---|---|---|")
    references = read_lines(multi30k("test_2016_flickr.de"))
    for score in compared(outputs, references, ["clean"]):
        print(f"| {score.system} | {len(texts[score.system][0]):,} | {cells(score)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--languages", default="de,fr,cs", help="target languages (default: all)")
    parser.add_argument("--sizes", default="29000,7000,2000", help="numbers of pairs")
    parser.add_argument(
        "--foreign", help="only look for foreign targets, of these shares: 0.01,0.05"
    )
    parser.add_argument("--cut", help="only look for cut targets, of these shares: 0.02,0.05")
    parser.add_argument("--large", type=int, help="also check a corpus of this many pairs")
    parser.add_argument("--train-minutes", type=float, help="train three times for this long")
    parser.add_argument("--train-pairs", type=int, default=29_000, help="the size of its text")
    parser.add_argument("--folder", type=Path, default=Path("runs/data_check"), help="of the runs")
    parser.add_argument("--processor-time", action="store_true", help="minutes of the processor")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(machine(), flush=True)
    sizes = [int(size) for size in given.sizes.split(",") if size]
    languages = given.languages.split(",")
    for given_shares, find in ((given.foreign, foreign_targets), (given.cut, cut_targets)):
        if given_shares:
            shares = [float(share) for share in given_shares.split(",")]
            by_share(languages, sizes, shares, given.seed, find)
    if given.foreign or given.cut:
        return
    precision_and_recall(languages, sizes, given.seed)
    if given.large:
        large(given.large, given.seed)
    if given.train_minutes:
        train(
            given.folder, given.train_pairs, given.train_minutes, given.seed, given.processor_time
        )


if __name__ == "__main__":
    main()
