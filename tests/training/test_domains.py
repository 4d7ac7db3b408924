import json
from pathlib import Path

import pytest

from crosshead.tasks.translation.task import BLEU
from crosshead.tasks.validation import LOSS
from crosshead.training.summary import domain_rows


def row(kind: str, update: int, values: tuple[float, float, float, float], *, best: bool) -> str:
    names = ("loss", "bleu", "old_loss", "old_bleu")
    found = {"kind": kind, "update": update, **dict(zip(names, values, strict=True)), "best": best}
    return json.dumps(found) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text(
        row("valid", 0, (3.0, 10.0, 2.0, 30.0), best=True)
        + row("valid", 10, (2.5, 14.0, 2.25, 29.0), best=True)
        + row("valid", 20, (9.0, 1.0, 9.0, 1.0), best=False)
        + row("average", 20, (2.5, 15.5, 2.0, 30.0), best=True)
        + json.dumps({"kind": "end", "update": 20})
        + "\n"
    )
    return path


def test_the_base_is_compared_with_the_chosen_weights_on_both_domains(log: Path) -> None:
    assert domain_rows(log, [LOSS, BLEU]) == [
        ["new domain", "loss 3.000 at update 0, 2.500 now: better"],
        ["new domain", "BLEU (greedy) 10.00 at update 0, 15.50 now: better"],
        ["old domain", "loss 2.000 at update 0, 2.000 now: unchanged"],
        ["old domain", "BLEU (greedy) 30.00 at update 0, 30.00 now: unchanged"],
    ]


def test_a_worse_value_is_called_worse(log: Path) -> None:
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]))
    assert [words for _, words in domain_rows(log, [BLEU])] == [
        "BLEU (greedy) 10.00 at update 0, 14.00 now: better",
        "BLEU (greedy) 30.00 at update 0, 29.00 now: worse",
    ]
    log.write_text(log.read_text().splitlines(keepends=True)[0])  # the base stays the best
    assert [words.partition(": ")[2] for _, words in domain_rows(log, [LOSS])] == [
        "unchanged", "unchanged",
    ]  # fmt: skip


def test_values_that_may_be_chance_are_not_compared(log: Path) -> None:
    log.write_text(
        row("valid", 0, (3.0, 0.02, 2.0, 4.9), best=True)
        + row("valid", 10, (2.5, 0.05, 2.25, 5.1), best=True)
    )
    assert [words.partition(": ")[2] for _, words in domain_rows(log, [BLEU])] == [
        "both too low to compare", "better",
    ]  # fmt: skip


def test_without_a_validation_of_the_base_there_is_nothing_to_compare(log: Path) -> None:
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    assert domain_rows(log, [BLEU]) == []
    log.write_text("")
    assert domain_rows(log, [BLEU]) == []
