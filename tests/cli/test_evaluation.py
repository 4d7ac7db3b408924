import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.cli.evaluation import (
    metric_names,
    scored_pairs,
    scores_jsonl,
    scores_table,
    text_evaluation,
    translated,
)
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.evaluation.comparison import ComparedScore
from crosshead.tasks.likelihood import text_scores
from crosshead.tasks.translation.line_translator import Translation
from crosshead.tasks.language.text_generator import ScoredText, TextGenerator
from crosshead.tasks.loading import load
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.training.budget import End, EndKind

BUNDLE = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"
ENDED = End(EndKind.MAX_UPDATES, "why")


def test_metrics_are_named_by_commas() -> None:
    assert metric_names("bleu, perplexity", "none", ["perplexity"]) == ["bleu", "perplexity"]
    with pytest.raises(ConfigError, match="did you mean 'chrf'"):
        metric_names("chrff", None)


def test_scores_are_shown_with_interval_and_signature() -> None:
    scores = [
        CorpusScore("BLEU", 30.123, 29.0, 31.0, "sig"),
        CorpusScore("perplexity", 4.0, 3.5, 4.5, "per:piece"),
    ]
    rows = [json.loads(line) for line in scores_jsonl(scores).splitlines()]
    assert rows == [dataclasses.asdict(score) for score in scores]
    assert scores_table(scores).splitlines()[1:] == [
        "BLEU        30.12  29.00 to 31.00  sig",
        "perplexity  4.00   3.50 to 4.50    per:piece",
    ]
    compared = [ComparedScore("a", "BLEU", 1.0, 0.5, 1.5, None, "sig")]
    assert "p_value" not in json.loads(scores_jsonl(compared))


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
    monkeypatch.setattr("crosshead.cli.answers._QUIET", 0.0)
    [found] = scored_pairs(load(BUNDLE, "cpu"), ["One."], ["Eins."])
    assert found.log_prob < 0
    assert "100%  1 of 1 pairs" in capfd.readouterr().err


@pytest.mark.parametrize("terminal", [True, False])
def test_the_scoring_of_a_text_is_watched_at_a_terminal_only(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("a\nbc")
    tokenizer = train_tokenizer(TokenizerConfig(kind="bytes"), ["a"])
    scored, shown = ScoredText([(1.0, 4, 4)], 0, "context:8|stride:8", tokenizer), []

    class Half(TextGenerator):
        def __init__(self) -> None: ...

        def score(  # type: ignore[override]
            self, text: str, stride: int, memory: None, progress: Callable[[float], None]
        ) -> ScoredText:
            assert (text, stride, memory) == ("a\nbc\n", 3, None)
            progress(0.4)
            return scored

    class Recorded:
        def due(self) -> bool:
            return True

        def advance(self, fraction: float, line: str) -> None:
            shown.append((fraction, line.partition(",")[0]))

        def close(self) -> None: ...

    monkeypatch.setattr("crosshead.cli.evaluation.load", lambda *given: Half())
    monkeypatch.setattr("crosshead.cli.answers.choose_display", lambda lost: Recorded())
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    scores = text_evaluation(tmp_path, tmp_path / "text", 3, None, "cpu", None)
    assert scores == text_scores(scored)
    seen = [(0, "0 of 5 characters"), (0.4, "2 of 5 characters"), (1, "5 of 5 characters")]
    assert shown == (seen if terminal else [])
