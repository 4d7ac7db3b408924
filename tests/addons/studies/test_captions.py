import dataclasses
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crosshead import __version__
from crosshead.addons.studies import captions, runs
from crosshead.addons.studies.captions import (
    made_up,
    multi30k,
    outputs,
    trained,
    transformer,
)
from crosshead.addons.studies.conduct import found_again
from crosshead.addons.studies.effort import FULL, Effort
from crosshead.bundle.places import CHECKPOINTS, WEIGHTS
from crosshead.errors import ConfigError
from crosshead.pipelines.translator import Translator

SHAPE = transformer(quick=True)


@pytest.mark.slow
def test_a_run_is_trained_once_and_gone_on_with_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, calls = made_up(tmp_path / "text", 1), []
    recipe = corpus.recipe(SHAPE, 1)

    def watched(*arguments: Any, **named: Any) -> None:
        calls.append("gone on with" if named["resume"] else "begun")
        train(*arguments, **named)

    def heard(translator: Translator, source: list[str]) -> list[str]:
        calls.append("translated")
        return greedily(translator, source)

    train, greedily = runs.train, captions.greedily
    monkeypatch.setattr(runs, "train", watched)
    monkeypatch.setattr(captions, "greedily", heard)
    lines, place = outputs(corpus, recipe), corpus.place(recipe)
    assert len(lines) == len(corpus.test()[0]) and calls == ["begun", "translated"]
    assert list(corpus.runs.iterdir()) == [place]
    weights = (place / WEIGHTS).read_bytes()
    calls.clear()
    assert outputs(corpus, recipe) == lines and calls == []
    corpus.finished(recipe).unlink()  # as if it had been cut off: checkpoints are there
    assert outputs(corpus, recipe) == lines and calls == ["gone on with", "translated"]
    assert (place / WEIGHTS).read_bytes() == weights
    corpus.finished(recipe).unlink()
    shutil.rmtree(place / CHECKPOINTS)  # as if before the first: it begins again
    calls.clear()
    assert outputs(corpus, recipe) == lines and calls == ["begun", "translated"]
    assert (place / WEIGHTS).read_bytes() == weights
    assert found_again([corpus.finished(recipe)], datetime.now(UTC) + timedelta(1)).endswith(
        f" by crosshead {__version__}"
    )
    other = dataclasses.replace(corpus, train={**corpus.train, "batch_tokens": 600})
    with pytest.raises(ConfigError, match=r"train\.batch_tokens is 600"):
        trained(other, other.recipe(SHAPE, 1))


def test_runs_have_places_of_their_own_and_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = made_up(tmp_path, 1)
    recipes = [corpus.recipe(transformer(heads), seed) for heads in (1, 4) for seed in (1, 2)]
    places = {corpus.place(recipe) for recipe in recipes}
    assert len(places) == 4
    monkeypatch.setattr(runs, "THIS_CODE", "another")
    assert not places & {corpus.place(recipe) for recipe in recipes}


def test_captions_that_are_not_there_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, named = Path("data/multi30k"), tmp_path / "named" / "multi30k" / "raw"
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    # Beside the working directory nothing is looked for.
    for text in (tmp_path / "shared" / "data" / "multi30k" / "raw", here, named):
        monkeypatch.delenv("CROSSHEAD_DATA", raising=False)
        if text == named:
            monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path / "named"))
        said: list[str] = []
        assert multi30k(FULL, said.append) is None
        [line] = said
        assert line.startswith(f"Multi30k not found in {named if text == named else here};")
        assert "`crosshead data get multi30k`" in line and "CROSSHEAD_DATA" in line
        text.mkdir(parents=True)
        (text / "train.en").write_text("")
        found = multi30k(FULL, said.append)
        if text in (here, named):
            assert found is not None and found.text == text
            assert f"{text}: 10 minutes a run" in said[1]
        else:
            assert found is None


def test_runs_of_other_minutes_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "multi30k" / "raw"
    text.mkdir(parents=True)
    (text / "train.en").write_text("")
    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))
    said: list[str] = []
    corpora = [multi30k(effort, said.append) for effort in (FULL, Effort(0.25), Effort(0.5))]
    found = [corpus for corpus in corpora if corpus is not None]
    assert [each.train["max_minutes"] for each in found] == [10, 2.5, 5]
    assert len({each.runs for each in found}) == 3
    assert "2.5 minutes a run" in said[1]
