import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas
import pytest

import crosshead
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.toml import to_toml
from crosshead.system.lines import read_lines
from crosshead.system.progress import Silent
from crosshead.text.parallel.corpora import survey, training_parts
from crosshead.text.parallel.filters import write_held_out
from crosshead.text.parallel.held_out import hold_out
from crosshead.text.parallel.pairs import ParallelText
from crosshead.training.given_data import GivenData, old_domain
from tests.training.given import Given

SOURCES = [f"{a} {b}" for a in "abcdef" for b in "ghijkl"]
TARGETS = [text.upper() for text in SOURCES]


def train(out: Path, **data: Any) -> Any:
    return crosshead.train(out=out, display=Silent(), **data)


class Rows:
    """A map-style data set, as those of PyTorch: it has a length and items, and no iterator."""

    def __len__(self) -> int:
        return len(SOURCES)

    def __getitem__(self, row: int) -> Mapping[str, str]:
        return {"en": SOURCES[row], "de": TARGETS[row]}  # an IndexError ends it


FORMS: dict[str, tuple[Any, list[str] | list[int] | None]] = {
    "tuples": (list(zip(SOURCES, TARGETS, strict=True)), None),
    "a generator": (((a, b) for a, b in zip(SOURCES, TARGETS, strict=True)), None),
    "a data set": (Rows(), ["en", "de"]),
    "rows of one field": (
        [{"translation": {"en": a, "de": b}} for a, b in zip(SOURCES, TARGETS, strict=True)],
        ["translation.en", "translation.de"],
    ),
    "columns": ({"en": SOURCES, "de": TARGETS, "other": [1]}, ["en", "de"]),
    "a table": (pandas.DataFrame({"en": SOURCES, "de": TARGETS}), ["en", "de"]),
    "a table without names": (pandas.DataFrame(zip(SOURCES, TARGETS, strict=True)), [0, 1]),
}


@pytest.mark.parametrize("form", FORMS)
def test_pairs_come_in_many_forms(form: str, given: list[Given], tmp_path: Path) -> None:
    pairs, fields = FORMS[form]
    train(tmp_path / "run", pairs=pairs, fields=fields)
    source, target = map(str, fields or ("source", "target"))
    rows = [json.loads(line) for line in given[0].files["train.jsonl"].splitlines()]
    assert rows == [{source: a, target: b} for a, b in zip(SOURCES, TARGETS, strict=True)]
    assert given[0].recipe.data.fields == [source, target]


def test_text_in_memory_is_a_file_of_lines(given: list[Given], tmp_path: Path) -> None:
    text = ["to be or not", "to be\nthat is"]
    train(tmp_path / "run", text=text, valid_text=text[:1], model={"layers": 1})
    assert given[0].files == {
        "train.txt": "to be or not\nto be\nthat is\n", "valid.txt": "to be or not\n",
    }  # fmt: skip
    assert given[0].recipe.model.architecture == "language"


HOURS = [datetime(2024, 1, 1) + timedelta(hours=hour) for hour in range(3)]
TABLES: dict[str, Any] = {
    "columns": {"time": HOURS, "load": [1.5, None, 2.0]},
    "a data frame": pandas.DataFrame({"time": HOURS, "load": [1.5, float("nan"), 2.0]}),
    "times as the index": pandas.DataFrame(
        {"load": [1.5, float("nan"), 2.0]}, index=pandas.Index(HOURS, name="time")
    ),
}


@pytest.mark.parametrize("form", TABLES)
def test_a_table_in_memory_is_a_series(form: str, given: list[Given], tmp_path: Path) -> None:
    train(tmp_path / "run", series=TABLES[form], target="load", data={"horizon": 1, "context": 1},
          model="dlinear")  # fmt: skip
    assert given[0].files == {
        "train.csv": "time,load\n2024-01-01 00:00:00,1.5\n2024-01-01 01:00:00,\n"
        "2024-01-01 02:00:00,2.0\n"
    }
    data = given[0].recipe.data
    assert (data.target, data.horizon, len(data.series)) == (["load"], 1, 1)


def test_files_of_a_series_are_used_as_they_are(given: list[Given], tmp_path: Path) -> None:
    train(tmp_path / "run", series=[Path("a.csv"), Path("b.csv")])
    assert given[0].files == {}
    assert given[0].recipe.data.series == ["a.csv", "b.csv"]


def generator() -> Iterator[str]:
    yield "a"
    yield 3  # type: ignore[misc]


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "one side": ({"source": ["a"]}, ConfigError, "target"),
    "data and a file": ({"source": ["a"], "target": "b.de"}, ConfigError, "one form"),
    "a shorter side": ({"source": ["a", "b"], "target": ["c"]}, DataError, "no text 2"),
    "names as data": ({"source": [__file__], "target": [__file__]}, ConfigError, "list of Path"),
    "half a character": ({"source": ["\ud800"], "target": ["a"]}, DataError, "text 1 has half"),
    "no pairs": ({"pairs": 5}, DataError, "expected pairs or the name of a file, found 5"),
    "no section": ({"train": None}, ConfigError, "train is a section"),
    "a dict as recipe": ({"recipe": {"train": {}}}, ConfigError, "recipe: expected a name"),
    "a number": ({"source": generator(), "target": ["a", "b"]}, DataError, "found int at 2"),
    "a triple": ({"pairs": [("a", "b", "c")]}, DataError, "row 1 is no pair"),
    "a string for a pair": ({"pairs": ["ab"]}, DataError, "row 1 is no pair"),
    "other keys": ({"pairs": [{"en": "a", "de": "b"}]}, DataError, "name both with fields"),
    "inner keys": ({"pairs": [{"t": {"en": "a", "de": "b"}}]}, DataError, "t.en, t.de, expected"),
    "other columns": ({"pairs": {"en": ["a"]}}, DataError, "no column 'source'"),
    "both forms": (
        {"pairs": [("a", "b")], "source": ["a"], "target": ["b"]}, ConfigError, "pairs alone",
    ),
    "a lone number": ({"text": 3}, DataError, "found int"),
    "a series of numbers": ({"series": [1, 2]}, DataError, "files, or a table of columns"),
    "columns of two lengths": (
        {"series": {"time": [1], "a": [1, 2]}}, DataError, "one length, found dict",
    ),
    "a target that is no name": ({"series": "a.csv", "target": [3]}, ConfigError, "target"),
    "no such number": ({"pairs": [{1: "a", 2: "b"}], "fields": [0, 1]}, DataError, "keys 1, 2"),
    "three fields": ({"pairs": [("a", "b")], "fields": list("abc")}, ConfigError, "fields"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_data_is_refused_and_leaves_nothing(case: str, tmp_path: Path) -> None:
    data, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        train(tmp_path / "run", **data)
    assert list(tmp_path.iterdir()) == []


def test_files_of_any_task_are_given_by_their_key(given: list[Given], tmp_path: Path) -> None:
    train(tmp_path / "run", images="photos", captions=Path("a.jsonl"))
    data = given[0].recipe.data
    assert (data.images, data.captions, given[0].files) == (["photos"], ["a.jsonl"], {})
    with pytest.raises(ConfigError, match=r"section 'sereis'; did you mean 'series'\?"):
        train(tmp_path / "run", sereis="a.csv")


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
