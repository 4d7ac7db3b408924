from pathlib import Path

import pytest

from crosshead.addons.studies.captions import (
    TEST,
    captions_of,
    outputs,
    run_on,
    sides,
    text_of,
    transformer,
)
from crosshead.addons.studies.effort import FULL, Effort
from crosshead.addons.studies.runs import MissingDataError
from crosshead.addons.studies.study import Trial
from tests.addons.studies.trials import full, of, quick


def test_captions_that_are_not_there_are_missing_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=f"no multi30k/raw/train.en in {tmp_path}"):
        text_of(full(tmp_path))
    for text in (tmp_path / "multi30k", tmp_path / "multi30k" / "raw"):
        text.mkdir()
        (text / "train.en").write_text("")
        said: list[str] = []
        found = captions_of(Trial(FULL, 1, said.append, tmp_path))
        assert found.text == text and said[0].startswith(f"{text}: 10 minutes a run")


def test_runs_of_other_minutes_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k" / "train.en").write_text("")
    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))
    found = [captions_of(of(effort, tmp_path)) for effort in (FULL, Effort(0.25), Effort(0.5))]
    assert [each.budget["max_minutes"] for each in found] == [10, 2.5, 5]
    assert len({each.run(transformer(), 1).place for each in found}) == 3


def test_a_run_has_the_settings_of_all_and_its_own(tmp_path: Path) -> None:
    train = {"seed": 7, "batch_tokens": 999}
    run = run_on(tmp_path, tmp_path, transformer(), tokenizer={"kind": "words"}, train=train)
    recipe = run.recipe
    assert (recipe.train.seed, recipe.train.batch_tokens, recipe.train.checkpoint_every) == (
        7, 999, 250,
    )  # fmt: skip
    assert recipe.data.valid_target == [str(tmp_path / "val.de")]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_trained_model_translates_the_test_set(tmp_path: Path) -> None:
    corpus = captions_of(quick(tmp_path))
    source, reference = sides(corpus.text, TEST)
    lines = outputs(source, corpus.run(transformer(quick=True), 1))
    assert len(lines) == len(reference) == 8
