import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.bundle.config import BundleScore
from crosshead.cli.reports import (
    bundle_facts,
    interruption_report,
    metric_names,
    run_report,
    scores_jsonl,
    scores_table,
    text_evaluation,
    translated,
)
from crosshead.data.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.evaluation import ComparedScore, CorpusScore, evaluate, perplexity, text_scores
from crosshead.pipelines.text_generator import ScoredText
from crosshead.pipelines.translator import Translation
from crosshead.tasks.loading import load
from crosshead.tasks.registry import TASKS, load_bundle
from crosshead.tasks.usability import Findings, Sample
from crosshead.training.budget import STOPPED, End, EndKind
from crosshead.training.checkpoint import Progress
from crosshead.training.result import Summary

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


def test_the_scores_of_a_bundle_are_among_its_facts() -> None:
    bundle = load_bundle(BUNDLE)
    assert bundle_facts(BUNDLE, bundle)[-1][0] == "search"
    scores = [BundleScore(metric="BLEU", value=38.125, signature="nrefs:1|tok:13a", test_set="a|b")]
    config = bundle.config.model_copy(update={"scores": scores})
    facts = bundle_facts(BUNDLE, dataclasses.replace(bundle, config=config))
    assert facts[-1] == ["BLEU", "38.12 on a|b (nrefs:1|tok:13a)"]


def test_perplexity_needs_no_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = load(BUNDLE, "cpu")
    monkeypatch.setattr(translator, "translate", None)
    [score] = evaluate(translator, ["One."], ["Eins."], ["perplexity"])
    scored = translator.score(["One."], ["Eins."])
    assert score == perplexity(scored, translator.bundle.target_tokenizer)
    assert "|tok:bpe|vocab:330|" in score.signature


def test_a_test_set_is_searched_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = load(BUNDLE, "cpu")
    searched: list[DecodeConfig] = []
    translate = translator.translate

    def watched(lines: list[str], *, decode: DecodeConfig) -> list[list[Translation]]:
        searched.append(decode)
        return translate(lines, decode=decode)

    monkeypatch.setattr(translator, "translate", watched)
    assert translated(translator, ["One."], {"beam": 1, "length_penalty": None})
    says = translator.bundle.config.decode
    assert searched == [says.model_copy(update={"beam": 1})]


@pytest.mark.parametrize("terminal", [True, False])
def test_the_scoring_of_a_text_is_watched_at_a_terminal_only(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("a\nbc")
    tokenizer = train_tokenizer(TokenizerConfig(kind="bytes"), ["a"])
    scored, shown = ScoredText([(1.0, 4, 4)], 0, "context:8|stride:8", tokenizer), []

    class Half:
        def score(
            self, text: str, stride: int, memory: None, progress: Callable[[float], None]
        ) -> ScoredText:
            assert (text, stride, memory) == ("a\nbc\n", 3, None)
            progress(0.4)
            return scored

    class Recorded:
        def __init__(self, messages: object) -> None: ...

        def advance(self, fraction: float, line: str) -> None:
            shown.append((fraction, line.partition(",")[0]))

        def close(self) -> None: ...

    monkeypatch.setattr("crosshead.cli.reports.load", lambda *given: Half())
    monkeypatch.setattr("crosshead.cli.answers.Bar", Recorded)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    scores = text_evaluation(tmp_path, tmp_path / "text", 3, None, "cpu", None)
    assert scores == text_scores(scored)
    seen = [(0, "0 of 5 characters"), (0.4, "2 of 5 characters"), (1, "5 of 5 characters")]
    assert shown == (seen if terminal else [])


def test_it_is_said_from_where_on_lines_are_split() -> None:
    facts = dict(bundle_facts(BUNDLE, load_bundle(BUNDLE)))
    assert re.findall(r"\d+ tokens", facts["longest source"]) == ["19 tokens", "22 tokens"]


def test_languages_are_shown_where_they_are_known() -> None:
    bundle = load_bundle(BUNDLE)
    named = bundle.config.model_copy(update={"source_language": "en", "target_language": "de"})
    facts = dict(bundle_facts(BUNDLE, dataclasses.replace(bundle, config=named)))
    assert facts["languages"] == "en to de"
    unnamed = bundle.config.model_copy(update={"source_language": None, "target_language": None})
    facts = dict(bundle_facts(BUNDLE, dataclasses.replace(bundle, config=unnamed)))
    assert "languages" not in facts


def test_scores_are_in_the_order_asked_for() -> None:
    lines = ["One two three.", "Ten four eight."]
    translator = load(BUNDLE, "cpu")
    names = ["ter", "perplexity", "bleu"]
    scores = evaluate(translator, lines, translator(lines), names)
    assert [each.metric for each in scores] == ["TER", "perplexity", "BLEU"]


def test_a_run_is_reported_with_what_was_skipped(tmp_path: Path) -> None:
    progress = Progress(update=1200, epoch=3, batch=1, batches=4, seconds=90.0)
    summary = Summary(tmp_path, ENDED, progress, 5, "the best")
    assert "1,200 updates, 3.2 epochs, 1.5 minutes" in run_report(summary)
    progress.skipped = 2
    assert "1,200 updates (2 skipped: gradients not finite)" in run_report(summary)


def test_a_run_is_reported_with_samples_and_both_searches(tmp_path: Path) -> None:
    score = BundleScore(metric="BLEU", value=70.6, signature="s", test_set="validation")
    long = "word " * 40
    findings = Findings([score], samples=[Sample("one", "", "eins"), Sample(long, long, long)])
    summary = Summary(
        tmp_path, ENDED, Progress(update=9), 5, "the best", [score], "beam 4",
        task=TASKS["translation"], validated={"bleu": 41.9}, findings=findings,
        verdict="this model is not usable yet: why; what",
    )  # fmt: skip
    report = run_report(summary)
    assert "BLEU (greedy, as in training)  41.90" in report
    assert "BLEU (beam 4)                  70.60" in report
    assert "input     one\noutput    (nothing)\nexpected  eins\n" in report
    assert "warning: this model is not usable yet: why; what\n" in report
    shown = [line for line in report.splitlines() if "word" in line]
    assert len(shown) == 3 and max(map(len, shown)) <= 100
    greedy = dataclasses.replace(summary, search="greedy", verdict="")
    assert "as in training" not in run_report(greedy)
    assert "warning" not in run_report(greedy)


def test_what_is_left_of_a_run_that_was_stopped(tmp_path: Path) -> None:
    begun = Summary(tmp_path, STOPPED, Progress(), 5)
    assert interruption_report(begun).startswith("stopped before the first update: nothing is left")
    (tmp_path / "recipe.toml").write_text("")
    assert "the earlier run is restored" in interruption_report(begun)
    later = Summary(tmp_path, STOPPED, Progress(update=7), 5)
    assert f"--resume --out {tmp_path}" in interruption_report(later)
