import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from crosshead.errors import UserError
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.toml import to_toml
from crosshead.system.lines import read_lines
from crosshead.tasks.recipes import compose
from crosshead.text.parallel.corpora import training_parts
from crosshead.text.parallel.filters import write_held_out
from crosshead.text.parallel.held_out import hold_out
from crosshead.text.parallel.pairs import ParallelText
from crosshead.text.parallel.parts import survey
from crosshead.training.given_data import GivenData
from crosshead.training.mixing import old_domain


def run_of(folder: Path, **data: object) -> tuple[Path, Recipe]:
    """The directory of a run, with its recipe alone."""
    recipe = compose(flags={"data": data, "train": {"seed": 5}})
    run = folder / "base"
    run.mkdir(exist_ok=True)
    (run / "recipe.toml").write_text(to_toml(recipe))
    return run, recipe


def held(run: Path, recipe: Recipe) -> ParallelText:
    """The held-out pairs, which are also listed in the directory of the run."""
    valid = hold_out(survey(training_parts(recipe.data)), recipe.data, recipe.train.seed).valid
    write_held_out(run / "held-out.tsv", [each._replace(file="typed") for each in valid.origins])
    return valid


def refuse(name: str, lines: Iterable[str]) -> str:
    raise AssertionError


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    """Pairs of which every second one has a line break."""
    rows = [{"en": f"a {n}" + "\nb" * (n % 2), "de": f"A {n}"} for n in range(100)]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_validation_files_are_named_again(tmp_path: Path) -> None:
    sides = {"source": ["a.en"], "target": ["a.de"], "valid_pairs": ["v.tsv"]}
    given = {key: [str(tmp_path / name) for name in names] for key, names in sides.items()}
    run, _ = run_of(tmp_path, **given)
    found = {key: names for key, names in old_domain(run, refuse).items() if names}
    assert found == {f"old_{key}": names for key, names in given.items()} | {
        "old_fields": ["1", "2"]
    }


def test_held_out_pairs_are_written_to_files(jsonl: Path, tmp_path: Path) -> None:
    run, recipe = run_of(tmp_path, pairs=[str(jsonl)], fields=["en", "de"])
    valid = held(run, recipe)
    found = old_domain(run, GivenData(tmp_path / "out").write)
    assert found["old_pairs"] == [str(jsonl)] and found["old_fields"] == ["en", "de"]
    (source,), (target,) = found["old_valid_source"], found["old_valid_target"]
    assert Path(source).parent == tmp_path / "out.data"
    pairs = list(zip(read_lines(Path(source)), read_lines(Path(target)), strict=True))
    both = zip(valid.source, valid.target, strict=True)
    assert pairs == [pair for pair in both if "\n" not in pair[0]]
    assert 0 < len(pairs) < len(valid)


@pytest.mark.parametrize("change", ["text", "list", "no list"])
def test_held_out_pairs_that_are_not_found_again_are_refused(
    change: str, jsonl: Path, tmp_path: Path
) -> None:
    run, recipe = run_of(tmp_path, pairs=[str(jsonl)], fields=["en", "de"])
    held(run, recipe)
    if change == "text":
        jsonl.write_text("".join(jsonl.read_text().splitlines(keepends=True)[1:]))
    elif change == "list":
        (run / "held-out.tsv").write_text("file\tline\ntyped\tx\n")
    else:
        (run / "held-out.tsv").unlink()
    with pytest.raises(UserError, match=r"base: .*are not found again, because") as caught:
        old_domain(run, refuse)
    assert "of its domain: --set data.old_source=OLD_SOURCE --set data.old_target=" in str(
        caught.value
    )


def test_other_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no recipe\.toml; name the directory of a run"):
        old_domain(tmp_path, refuse)
    run, _ = run_of(tmp_path, source_language="en")
    with pytest.raises(UserError, match="base: was not trained on pairs of texts"):
        old_domain(run, refuse)
    names = {"source": ["a.en"], "target": ["a.de"], "directions": "both"}
    run, _ = run_of(tmp_path, **names)
    with pytest.raises(UserError, match=r"base: its model has several directions; in place of "):
        old_domain(run, refuse)
