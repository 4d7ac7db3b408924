from collections.abc import Callable

import pytest

from crosshead.decoding.search import DecodeConfig
from crosshead.tasks.loading import load
from crosshead.tasks.translation.line_translator import Translation
from crosshead.tasks.translation.verbs.evaluation import scored_pairs, translated
from tests.cli.tools import BUNDLE


def test_a_test_set_is_searched_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = load(BUNDLE, "cpu")
    searched: list[DecodeConfig] = []
    translate = translator.translate

    def watched(
        lines: list[str], *, decode: DecodeConfig, progress: Callable[[float], None]
    ) -> list[list[Translation]]:
        searched.append(decode)
        return translate(lines, decode=decode, progress=progress)

    monkeypatch.setattr(translator, "translate", watched)
    assert translated(translator, ["One."], {"beam": 1, "length_penalty": None})
    says = translator.bundle.config.decode
    assert searched == [says.model_copy(update={"beam": 1})]


def test_the_scoring_of_pairs_for_perplexity_is_reported(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("crosshead.cli.terminal._QUIET", 0.0)
    [found] = scored_pairs(load(BUNDLE, "cpu"), ["One."], ["Eins."])
    assert found.log_prob < 0
    assert "100%  1 of 1 pairs" in capfd.readouterr().err
