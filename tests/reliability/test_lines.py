"""As many lines out as in, whatever the lines are: in training, translation and evaluation."""

import json
import math
import random
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.cli import run
from crosshead.tasks.translation.line_translator import LONGEST_STRETCH
from crosshead.text.parallel.corpora import read_aligned, read_pairs
from crosshead.text.parallel.section import DataConfig
from tests.reliability.tools import BUNDLE, SEED, counts, train_flags

Record = Callable[[str], None]

NO_TEXT = LONGEST_STRETCH + 1
CONTROLS = [chr(code) for code in (*range(10), *range(11, 32), *range(127, 160))]
BREAKS = ["\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r"]
ODD = ["\ufeff", "\u200b", "\u200d", "\u202e", "\u2066", "\u00ad", "\ufffd", "\uffff", "\U0010ffff"]
MARKS = [chr(code) for code in range(0x300, 0x370)]
RIGHT_TO_LEFT = [chr(code) for code in (*range(0x5D0, 0x5EB), *range(0x620, 0x64B))]


def random_bytes(rng: random.Random) -> str:
    """Random bytes, what is not UTF-8 among them replaced."""
    return rng.randbytes(rng.randint(1, 60)).decode("utf-8", errors="replace").replace("\n", "")


def random_characters(rng: random.Random) -> str:
    codes = (rng.randrange(sys.maxunicode + 1) for _ in range(rng.randint(1, 20)))
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000 and code != 10)


def mixed(*alphabets: list[str]) -> Callable[[random.Random], str]:
    """Words with other characters between."""

    def make(rng: random.Random) -> str:
        parts = [rng.choice([*rng.choice(alphabets)[:], "one ", " two", "x"]) for _ in range(12)]
        return "".join(parts)

    return make


KINDS: list[Callable[[random.Random], str]] = [
    random_bytes,
    random_characters,
    mixed(CONTROLS),
    mixed(BREAKS),
    mixed(ODD),
    mixed(MARKS),
    mixed(RIGHT_TO_LEFT, MARKS),
    mixed(CONTROLS, BREAKS, ODD, MARKS, RIGHT_TO_LEFT),
    lambda rng: "",
    lambda rng: rng.choice([" ", "\t", "\r", "\r\r", "\u3000", "\u00a0", " \r "]),
    lambda rng: rng.choice(["a", "\0", "\u2581", "<unk>", "</s>", "<s>", "<pad>", "<0x0A>", "\\n"]),
    lambda rng: rng.choice(["👩‍👩‍👧‍👦", "🇩🇪", "e\u0301\u0302", "ﷺ", "ß", "İ"]) * rng.randint(1, 9),
    lambda rng: unicodedata.normalize("NFD", "Überfluß çà et là " * rng.randint(1, 3)),
    lambda rng: rng.choice(["one two three", "seven", "two one"]),
]


def fuzzed(count: int, seed: int) -> list[str]:
    """Lines without a line feed; every five hundredth is very long, and another is no text."""
    rng = random.Random(seed)
    lines = [KINDS[number % len(KINDS)](rng) for number in range(count)]
    for number in range(7, count, 500):
        lines[number] = rng.choice(["a", "one two ", "\u0301", "\0", "אב ", "one. Two. "]) * 500
    for number in range(11, count, 500):
        lines[number] = rng.choice(["x", "\0", "\u0301", "漢", "x\u0301", "."]) * NO_TEXT
    assert not any("\n" in line for line in lines)
    return lines


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def as_read(lines: list[str]) -> list[str]:
    """A carriage return before a line feed goes with it, and a mark in front of the file."""
    read = [line.removesuffix("\r") for line in lines]
    return [read[0].removeprefix("\ufeff"), *read[1:]]


def output_of(arguments: list[object], capfd: pytest.CaptureFixture[str]) -> str:
    code = run([str(argument) for argument in arguments])
    captured = capfd.readouterr()
    assert code == 0, captured.err
    return captured.out + captured.err


@counts(quick=500, full=10_000)
def test_lines_that_are_trained_on(
    count: int, tmp_path: Path, capfd: pytest.CaptureFixture[str], record: Record
) -> None:
    source, target = fuzzed(count, SEED), fuzzed(count, SEED + 1)
    files = write(tmp_path / "source.txt", source), write(tmp_path / "target.txt", target)
    text = read_pairs(DataConfig(source=[str(files[0])], target=[str(files[1])]))
    assert (text.source, text.target) == (as_read(source), as_read(target))

    rows = [{"a": left, "b": right} for left, right in zip(source, target, strict=True)]
    pairs = write(tmp_path / "pairs.jsonl", [json.dumps(row) for row in rows])
    text = read_pairs(DataConfig(pairs=[str(pairs)], fields=["a", "b"]))
    assert (text.source, text.target) == (source, target)

    out = tmp_path / "run"
    changed = ["--set", "tokenizer.sampling=0", "--set", "tokenizer.kind=bytes"]
    said = output_of(["train", *train_flags(tmp_path, out, max_updates="1"), *changed], capfd)
    found = re.search(r"([\d,]+) pairs to train on.*?([\d,]+) pairs held out", said)
    assert found
    trained, held_out = (int(number.replace(",", "")) for number in found.groups())
    left_out = (out / "left-out.tsv").read_bytes().count(b"\n") - 1
    assert trained > count / 3 and held_out and left_out
    assert trained + held_out + left_out == count
    record(
        f"{count} fuzzed pairs read as they are; {trained} trained on, {held_out} held out, "
        f"{left_out} left out by name: {trained + held_out + left_out}"
    )


@counts(quick=100, full=10_000)
def test_lines_that_are_translated_and_evaluated(
    count: int, tmp_path: Path, capfd: pytest.CaptureFixture[str], record: Record
) -> None:
    lines, references = fuzzed(count, SEED + 2), fuzzed(count, SEED + 3)
    source = write(tmp_path / "source.txt", lines)
    reference = write(tmp_path / "reference.txt", references)
    output = tmp_path / "output.txt"
    threads = ["--threads", 1]
    output_of(["translate", BUNDLE, source, "--beam", 1, "--output", output, *threads], capfd)
    translated = output.read_bytes()
    assert translated.endswith(b"\n")
    assert translated.count(b"\n") == count and b"\r" not in translated
    empty = [number for number, line in enumerate(lines) if not line.strip()]
    given = translated.decode().split("\n")
    assert all(given[number] == "" for number in empty)
    assert all(given[number] == lines[number] for number in range(11, count, 500))

    assert [len(side) for side in read_aligned(source, reference)] == [count, count]
    flags = ["--beam", 1, "--metrics", "bleu,chrf", "--jsonl", *threads]
    said = output_of(
        ["evaluate", BUNDLE, "--source", source, "--reference", reference, *flags], capfd
    )
    rows = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [row["metric"] for row in rows] == ["BLEU", "chrF2"]
    assert all(math.isfinite(row["value"]) for row in rows)
    record(f"{count} fuzzed lines in, {count} translations out, {count} evaluated")
