"""Options are flags for the command line and arguments for Python."""

import ast
import shlex
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import pytest

from crosshead.caller import (
    PYTHON,
    Caller,
    CommandLine,
    calling_from,
    how_to_check,
    how_to_resume,
    option,
    setting,
)

AWKWARD = Path("it's; (a)")


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (CommandLine(), ["--force", "--resume", "--out", "--from", "--valid-source"]),
        (PYTHON, ["force=True", "resume=True", "out", "start", "valid_source"]),
    ],
)
def test_options_are_flags_or_arguments(who: Caller, expected: list[str]) -> None:
    with calling_from(who):
        assert [option(x) for x in ("force", "resume", "out", "from", "valid-source")] == expected


def test_an_option_with_a_value_can_be_copied() -> None:
    assert shlex.split(option("from", str(AWKWARD))) == ["--from", str(AWKWARD)]
    with calling_from(PYTHON):
        assert option("from", str(AWKWARD)) == f"start={str(AWKWARD)!r}"


def test_settings_are_flags_assignments_or_sections() -> None:
    def found() -> list[str]:
        return [
            setting("train.max_updates", 30, has_flag=True),
            setting("train.max_updates", has_flag=True),
            setting("tokenizer.vocab_size", 30),
            setting("train.patience"),
        ]

    assert found() == [
        "--max-updates 30", "--max-updates", "--set tokenizer.vocab_size=30",
        "--set train.patience=...",
    ]  # fmt: skip
    with calling_from(PYTHON):
        assert found() == [
            "train={'max_updates': 30}", "train={'max_updates': ...}",
            "tokenizer={'vocab_size': 30}", "train={'patience': ...}",
        ]  # fmt: skip


def test_the_call_that_resumes_can_be_copied() -> None:
    command = how_to_resume(AWKWARD, setting("train.max_minutes", 2.5, has_flag=True))
    words = ["crosshead", "train", "--resume", "--out", str(AWKWARD), "--max-minutes", "2.5"]
    assert shlex.split(command) == words
    assert shlex.split(CommandLine("python -m crosshead").resume(AWKWARD))[:3] == [
        "python", "-m", "crosshead",
    ]  # fmt: skip
    with calling_from(PYTHON):
        call = how_to_resume(AWKWARD, setting("train.max_minutes", 2.5, has_flag=True))
    parsed = ast.parse(call, mode="eval").body
    assert isinstance(parsed, ast.Call)
    arguments = {each.arg: ast.literal_eval(each.value) for each in parsed.keywords}
    assert arguments == {"out": str(AWKWARD), "resume": True, "train": {"max_minutes": 2.5}}
    assert call.startswith("crosshead.train(")


def test_a_block_ends_with_the_caller_before_it_also_after_an_error() -> None:
    with pytest.raises(ValueError, match="x"), calling_from(PYTHON):
        raise ValueError("x")
    assert option("out") == "--out"


def test_other_threads_have_their_own_caller() -> None:
    """A program may train in one thread and run commands in another."""
    with ThreadPoolExecutor(1) as pool, calling_from(PYTHON):
        assert pool.submit(option, "out").result() == "--out"
        assert pool.submit(copy_context().run, option, "out").result() == "out"


def test_how_to_check_can_be_copied() -> None:
    files = {"pairs": [str(AWKWARD)], "fields": ["en", "de"], "valid_pairs": ["a", "b"]}
    assert shlex.split(how_to_check(files)) == [
        "crosshead", "data", "check", "--pairs", str(AWKWARD), "--fields", "en,de",
        "--valid-pairs", "a", "--valid-pairs", "b",
    ]  # fmt: skip
    with calling_from(PYTHON):
        call = ast.parse(how_to_check(files), mode="eval").body
    assert isinstance(call, ast.Call)
    values = {each.arg: ast.unparse(each.value) for each in call.keywords}
    assert values == {
        "pairs": repr(str(AWKWARD)), "fields": "['en', 'de']",
        "valid_pairs": "[Path('a'), Path('b')]",
    }  # fmt: skip
