"""The mutation tool: the changes that it makes, the tests that it runs, and what it reports."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import mutants as tool
import pytest
from mutations import mutants

SOURCE = '''"""Say."""

import math


def clipped(x: int = 3, *, low: float = 0.5) -> "list[int]":
    """Return x."""
    if low <= x < 2 or not x:
        raise ValueError(f"{x + 1} is wrong" + "!")
    assert x > 1
    done = [y for y in range(x)[1:] if y]
    done[0] += x
    return min(done, key=abs)
'''
CHANGES = {
    "3 -> 4", "3 -> 2", "0.5 -> 1.0", "low <= x < 2 -> (low < x < 2)", "2 -> 3", "2 -> 1",
    "low <= x < 2 -> (low > x < 2)", "low <= x < 2 -> (low <= x <= 2)",
    "low <= x < 2 -> (low <= x >= 2)", "low <= x < 2 or not x -> (low <= x < 2 and (not x))",
    "not x -> x", 'raise ValueError(f"{x + 1} is wrong" + "!") -> pass', "1 -> 2", "1 -> 0",
    "1: -> :", "[y for y in range(x)[1:] if y] -> [y for y in range(x)[1:]]", "0 -> 1",
    "done[0] += x -> pass", "done[0] += x -> done[0] -= x",
    "min(done, key=abs) -> max(done, key=abs)", "min(done, key=abs) -> min(done)",
}  # fmt: skip


def test_each_place_is_changed_and_messages_annotations_and_assertions_are_not() -> None:
    found = [mutant for place in mutants("crosshead/x.py", SOURCE) for mutant in place]
    assert {f"{mutant.before} -> {mutant.after}" for mutant in found} == CHANGES
    for mutant in found:
        assert mutant.key.startswith("crosshead/x.py::clipped: ")
        assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(SOURCE))
        lines = zip(SOURCE.splitlines(), mutant.source.splitlines(), strict=True)
        changed = [n for n, (old, new) in enumerate(lines, start=1) if old != new]
        assert changed == [mutant.line]


def test_equal_changes_of_a_function_have_keys_of_their_own() -> None:
    places = mutants("x.py", "def f(a):\n    return a < 1, a < 1\n")
    keys = [mutant.key for place in places for mutant in place]
    assert len(set(keys)) == len(keys) == 8
    assert "x.py::f: a < 1 -> (a <= 1) (2)" in keys


@pytest.mark.slow
def test_a_seed_draws_the_same_mutants_from_all_modules() -> None:
    sample = tool.draw(100, seed=1)
    assert [m.key for m in sample] == [m.key for m in tool.draw(100, seed=1)]
    assert {m.key for m in sample} != {m.key for m in tool.draw(100, seed=2)}
    assert 90 <= len(sample) <= 110 and len({m.path for m in sample}) > 15


def test_every_module_has_tests_of_its_own_that_exist() -> None:
    for path in {mutant.path for mutant in tool.draw(1000, seed=1)}:
        stages = tool.tests_of(path)
        assert stages["own"]
        files = [file for stage in stages.values() for file in stage]
        assert len(set(files)) == len(files)
        assert all((tool.ROOT / file).is_file() for file in files)


def test_every_equivalent_mutant_is_one_and_has_a_reason() -> None:
    entries = tomllib.loads(tool.EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]
    for entry in entries:
        path = tool.ROOT / entry["mutant"].partition("::")[0]
        places = mutants(path.relative_to(tool.ROOT).as_posix(), path.read_text(encoding="utf-8"))
        keys = {mutant.key for place in places for mutant in place}
        assert entry["mutant"] in keys, "the code has changed: remove the entry"
        assert len(entry["reason"]) > 20


TOY = "def is_larger(a, b):\n    return a > b\n"
TOY_TEST = (
    "from crosshead.evaluation.toy import is_larger\n\ndef test():\n    assert is_larger(2, 1)\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "results"),
    [("", {">=": "survived", "<=": "killed"}), ("    assert not is_larger(1, 1)\n", None)],
)
def test_a_mutant_is_killed_by_a_test_that_fails(
    more: str, results: dict[str, str] | None, tmp_path: Path
) -> None:
    """The strictness of a comparison is seen by a test of two equal values alone."""
    for name in ("crosshead/evaluation", "tests/evaluation", "tools"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "crosshead/__init__.py").touch()
    (tmp_path / "crosshead/evaluation/toy.py").write_text(TOY)
    (tmp_path / "tests/evaluation/test_toy.py").write_text(TOY_TEST + more)
    for name in tool.BUILT_ON["evaluation"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("def test(): ...\n")
    for name in ("mutants.py", "mutations.py"):
        (tmp_path / "tools" / name).write_bytes((tool.ROOT / "tools" / name).read_bytes())
    (tmp_path / "tools/mutants-equivalent.toml").write_text("equivalent = []\n")
    command = [sys.executable, "tools/mutants.py", "--number", "1", "--log", "log.jsonl"]
    found = {}
    for seed in ("1", "2", "3", "4"):
        done = subprocess.run(
            [*command, "--seed", seed], cwd=tmp_path, capture_output=True, text=True
        )
        assert "of 1 mutants killed" in done.stdout, done.stderr
    for line in (tmp_path / "log.jsonl").read_text().splitlines():
        result = json.loads(line)
        found["<=" if "<=" in result["mutant"] else ">="] = result["result"]
    assert found == (results or {">=": "killed", "<=": "killed"})
