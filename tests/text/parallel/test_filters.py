from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from crosshead.errors import DataError
from crosshead.text.parallel import filters as module
from crosshead.text.parallel.filters import (
    RATIO_SLACK,
    REASONS,
    Glance,
    keep_pairs,
    quick_check,
    read_held_out,
    write_held_out,
    write_left_out,
)
from crosshead.text.parallel.held_out import HeldOut
from crosshead.text.parallel.pairs import Origin, ParallelText
from crosshead.text.parallel.section import DataConfig
from crosshead.text.symbols import ByteTokenizer, CharacterTokenizer

CHARACTERS = CharacterTokenizer.train(["abcdefg "], 20, [])


def corpus(*pairs: tuple[str, str]) -> ParallelText:
    count = len(pairs)
    sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return ParallelText(sources, targets, [Origin("f", n) for n in range(1, count + 1)])


def test_each_reason_is_counted_and_named_by_line() -> None:
    text = corpus(
        ("a", "b"),
        ("", "b"),
        ("a", " \t"),
        ("a" * 41, "b" * 41),
        ("a", "b" * 41),
        ("a", "b" * (2 + RATIO_SLACK)),
        ("a" * (3 + RATIO_SLACK), "b"),
        ("a" * 40, "b" * 40),
        ("a", "b"),
        ("a", "c"),
    )
    config = DataConfig(max_length=40, max_ratio=2.0, drop_duplicates=True)
    kept = keep_pairs(text, config, CHARACTERS, CHARACTERS)
    assert kept.left_out == [
        ("f", 2, "empty side"),
        ("f", 3, "empty side"),
        ("f", 4, "too long"),
        ("f", 5, "too long"),
        ("f", 7, "length ratio"),
        ("f", 9, "duplicate"),
    ]
    counts = {"empty side": 2, "too long": 2, "length ratio": 1, "duplicate": 1}
    assert kept.counts() == {"repeats a validation source": 0, **counts}
    assert tuple(kept.counts()) == REASONS
    assert (kept.encoded.rows + 1).tolist() == [1, 6, 8, 10]
    for row, (source, target) in zip(kept.encoded.rows, kept.examples, strict=True):
        assert CHARACTERS.decode(source) == text.source[row]
        assert CHARACTERS.decode(target) == text.target[row]


def test_repetitions_of_held_out_pairs_are_counted_with_the_rest() -> None:
    text = corpus(("a", "b"), ("", "b"), ("c", "d"), (" c", "d"))
    held = HeldOut(corpus(("c", "d")), np.array([2]), np.array([3]))
    kept = keep_pairs(text, DataConfig(), CHARACTERS, CHARACTERS, held)
    assert kept.left_out == [("f", 2, "empty side"), ("f", 4, "repeats a validation source")]
    assert kept.encoded.rows.tolist() == [0]
    assert kept.counts()["repeats a validation source"] == 1


def test_duplicates_stay_unless_asked() -> None:
    kept = keep_pairs(corpus(("a", "b"), ("a", "b")), DataConfig(), CHARACTERS, CHARACTERS)
    assert len(kept.examples) == 2 and not kept.left_out


class ImpatientTokenizer(CharacterTokenizer):
    """Does not bear to be given a very long line."""

    def encode(self, text: str, rng: np.random.Generator | None = None) -> list[int]:
        assert len(text) < 100_000
        return super().encode(text, rng)


def test_a_line_of_a_megabyte_is_too_long_without_being_tokenized() -> None:
    tokenizer = ImpatientTokenizer.train(["ab"], 10, [])
    text = corpus(("a", "b"), ("ab" * 500_000, "b"), ("a", "ab" * 500_000))
    kept = keep_pairs(text, DataConfig(), tokenizer, tokenizer)
    assert [row.line for row in kept.left_out] == [2, 3]
    assert kept.counts()["too long"] == 2


def test_nothing_left_is_an_error_that_counts() -> None:
    with pytest.raises(DataError, match=r"no pair is left .*empty side: 2, too long: 1"):
        keep_pairs(
            corpus(("", "a"), ("a", ""), ("a" * 300, "a")), DataConfig(), CHARACTERS, CHARACTERS
        )


def test_left_out_is_written_with_a_header(tmp_path: Path) -> None:
    kept = keep_pairs(corpus(("ab", "c"), ("", "b")), DataConfig(), ByteTokenizer(), CHARACTERS)
    write_left_out(tmp_path / "left_out.tsv", kept.left_out)
    assert (tmp_path / "left_out.tsv").read_text() == "file\tline\treason\nf\t2\tempty side\n"


def test_the_lines_of_held_out_pairs_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "held-out.tsv"
    assert read_held_out(path) == []
    write_held_out(path, [Origin("a b\u2028", 7), Origin("c", 3)])
    assert read_held_out(path) == [7, 3]
    path.write_text("damaged\nfile")
    assert read_held_out(path) == []


def test_white_space_around_a_side_is_not_trained_on() -> None:
    text = corpus(("ab", "c"), (" \tab ", "c "), (" " * 10_000 + "ab", "c"), ("a b", "c"))
    config = DataConfig(max_length=40)
    kept = keep_pairs(text, config, CHARACTERS, CHARACTERS)
    ab, c = CHARACTERS.encode("ab"), CHARACTERS.encode("c")
    found = [(list(source), list(target)) for source, target in kept.examples]
    assert found == [(ab, c)] * 3 + [(CHARACTERS.encode("a b"), c)]
    once = config.model_copy(update={"drop_duplicates": True})
    assert len(keep_pairs(text, once, CHARACTERS, CHARACTERS).examples) == 2


def test_findings_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "one": lambda *given: Glance(["a"], "", [3, 1]),
        "two": lambda *given: Glance(["b"], "half is wrong", [1]),
    }
    monkeypatch.setattr(module, "added", found.__class__(checks=found).get)
    nothing: Any = SimpleNamespace()
    assert quick_check(nothing, nothing, None) == Glance(["a", "b"], "half is wrong", [1, 3])
    monkeypatch.setattr(module, "added", lambda group: {})
    assert quick_check(nothing, nothing, None) == Glance([], "", [])
