from pathlib import Path
from typing import Any

import pytest

from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.tasks.loading import load, load_as
from crosshead.tasks.translation.line_translator import Translation
from crosshead.tasks.translation.translator import Translator
from crosshead.tasks.translation.verbs.evaluation import TranslationSet, scored_pairs, translated
from tests.cli.tools import BUNDLE


def test_a_test_set_is_searched_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = load(BUNDLE, "cpu")
    searched: list[DecodeConfig] = []
    translate = translator.translate

    def watched(
        lines: list[str], *, decode: DecodeConfig, **others: Any
    ) -> list[list[Translation]]:
        searched.append(decode)
        return translate(lines, decode=decode, **others)

    monkeypatch.setattr(translator, "translate", watched)
    assert translated(translator, ["One."], {"beam": 1, "length_penalty": None}, "crosshead")
    says = translator.bundle.config.decode
    assert searched == [says.model_copy(update={"beam": 1})]
    with pytest.raises(ConfigError, match="unknown engine 'marian'"):
        translated(translator, ["One."], {"beam": None}, "marian")


def test_the_scoring_of_pairs_for_perplexity_is_reported(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("crosshead.cli.terminal._QUIET", 0.0)
    [found] = scored_pairs(load(BUNDLE, "cpu"), ["One."], ["Eins."])
    assert found.log_prob < 0
    assert "100%  1 of 1 pairs" in capfd.readouterr().err


def test_a_set_names_its_files_and_those_of_its_references() -> None:
    sides = TranslationSet(Path("a.en"), Path("a.de"), None, None)
    assert (sides.files, sides.reference_files) == (["a.en", "a.de"], "a.de")
    pairs = TranslationSet(None, None, ["a.tsv", "b.tsv"], None)
    assert (pairs.files, pairs.reference_files) == (["a.tsv", "b.tsv"], "a.tsv, b.tsv")


def test_several_tables_are_read_one_after_the_other(tmp_path: Path) -> None:
    tables = [tmp_path / "a.csv", tmp_path / "b.jsonl"]
    tables[0].write_text("de,en\nEins.,One.\n")
    tables[1].write_text('{"en": "Two.", "de": "Zwei."}\n')
    test = TranslationSet(None, None, [*map(str, tables)], "en,de")
    test.check(load_as(Translator, [BUNDLE], "cpu", 1))
    assert test.read() == (["One.", "Two."], ["Eins.", "Zwei."])


def test_missing_fields_are_found_before_a_file_is_read() -> None:
    test = TranslationSet(None, None, ["missing.jsonl"], None)
    with pytest.raises(ConfigError, match=r"^--pairs: missing\.jsonl is JSON Lines; name the fiel"):
        test.check(load_as(Translator, [BUNDLE], "cpu", 1))
