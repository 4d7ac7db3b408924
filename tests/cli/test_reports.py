import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from crosshead.bundle.config import BundleScore
from crosshead.cli import run
from crosshead.cli.reports import bundle_facts, end_of_run, run_report
from crosshead.cli.terminal import put
from crosshead.tasks.registry import TASKS, load_bundle
from crosshead.tasks.usability import Findings, Sample
from crosshead.training.progress import Progress
from crosshead.training.result import Summary
from crosshead.training.schedule import STOPPED, End, EndKind

BUNDLE = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"
ENDED = End(EndKind.MAX_UPDATES, "why")


def test_the_scores_of_a_bundle_are_among_its_facts() -> None:
    bundle = load_bundle(BUNDLE)
    assert [fact[0] for fact in bundle_facts(BUNDLE, bundle)[-2:]] == ["search", "engine"]
    scores = [BundleScore(metric="BLEU", value=38.125, signature="nrefs:1|tok:13a", test_set="a|b")]
    config = bundle.config.model_copy(update={"scores": scores})
    facts = bundle_facts(BUNDLE, dataclasses.replace(bundle, config=config))
    assert facts[-1] == ["BLEU", "38.12 on a|b (nrefs:1|tok:13a)"]


def test_it_is_said_from_where_on_lines_are_split() -> None:
    facts = dict(bundle_facts(BUNDLE, load_bundle(BUNDLE)))
    assert facts["longest line"] == (
        "19 tokens; a longer line is split into its sentences, and a sentence of more than 22 "
        "tokens is cut"
    )


def test_the_licence_is_shown_where_it_is_known() -> None:
    bundle = load_bundle(BUNDLE)
    assert "licence" not in dict(bundle_facts(BUNDLE, bundle))
    config = bundle.config.model_copy(update={"license": "cc-by-4.0"})
    facts = dict(bundle_facts(BUNDLE, dataclasses.replace(bundle, config=config)))
    assert facts["licence"] == "cc-by-4.0"


def test_languages_are_shown_where_they_are_known() -> None:
    bundle = load_bundle(BUNDLE)
    named = bundle.config.model_copy(update={"source_language": "en", "target_language": "de"})
    facts = dict(bundle_facts(BUNDLE, dataclasses.replace(bundle, config=named)))
    assert facts["languages"] == "en to de"
    unnamed = bundle.config.model_copy(update={"source_language": None, "target_language": None})
    facts = dict(bundle_facts(BUNDLE, dataclasses.replace(bundle, config=unnamed)))
    assert "languages" not in facts


def test_a_run_is_reported_with_what_was_skipped(tmp_path: Path) -> None:
    progress = Progress(update=1200, epoch=3, batch=1, batches=4, seconds=90.0)
    summary = Summary(tmp_path, ENDED, progress, 5, "the best")
    assert "1,200 updates, 3.2 epochs, 1.5 minutes" in run_report(summary)
    progress.skipped = 2
    assert "1,200 updates (2 skipped: gradients not finite)" in run_report(summary)


def test_a_run_is_reported_with_samples_and_both_searches(tmp_path: Path) -> None:
    score = BundleScore(
        metric="BLEU", value=70.6, signature="s", test_set="validation", low=69.25, high=72.0
    )
    long = "word " * 40
    findings = Findings(
        [score],
        samples=[Sample("one", "", "eins", "worst of 2"), Sample(long, long, long)],
        remarks=["A remark.", "Another " + long],
    )
    summary = Summary(
        tmp_path, ENDED, Progress(update=9), 5, "the best", [score], "beam 4",
        task=TASKS["translation"], validated={"bleu": 41.9}, findings=findings,
        verdict="this model is not usable yet: why; what",
    )  # fmt: skip
    report = run_report(summary)
    assert "BLEU (greedy, as in training)  41.90" in report
    assert "BLEU (beam 4)                  70.60 [69.25 to 72.00] (validation)\n" in report
    assert "worst of 2\ninput     one\noutput    (nothing)\nexpected  eins\n" in report
    assert "warning: this model is not usable yet: why; what\n" in report
    shown = [line for line in report.splitlines() if "word" in line]
    assert "\nA remark.\nAnother word" in report
    assert len(shown) == 6 and max(map(len, shown)) <= 100
    greedy = dataclasses.replace(summary, search="greedy", verdict="")
    assert "as in training" not in run_report(greedy)
    assert "warning" not in run_report(greedy)


def test_what_is_left_of_a_run_that_was_stopped(tmp_path: Path) -> None:
    begun = Summary(tmp_path, STOPPED, Progress(), 5)
    assert end_of_run(begun).startswith("stopped before the first update: nothing is left")
    (tmp_path / "recipe.toml").write_text("")
    assert "the earlier run is restored" in end_of_run(begun)
    later = Summary(tmp_path, STOPPED, Progress(update=7), 5)
    assert f"--resume --out {tmp_path}" in end_of_run(later)


def test_a_sample_of_a_run_cannot_control_the_terminal(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    hostile = "\x1b]0;owned\x07 \x9b31m\u202e"
    findings = Findings([], samples=[Sample(hostile, hostile, hostile)], remarks=[hostile])
    put(run_report(Summary(tmp_path, ENDED, Progress(update=9), 5, "best", findings=findings)))
    said = capfdbinary.readouterr().out.decode()
    assert "owned" in said and not set(said) & set("\x1b\x07\x9b\u202e")


@pytest.mark.parametrize("key", ["crosshead", "license", "source_language", "scores", "origin"])
def test_a_bundle_with_control_characters_is_refused_without_printing_them(
    key: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    bundle = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    config = json.loads((bundle / "config.json").read_text())
    hostile = "en\x1b]0;owned\x07"
    config[key] = {
        "scores": [{"metric": hostile, "value": 1.0, "signature": "x", "test_set": "y"}],
        "origin": {"kind": "marian", "name": hostile, "sha256": "0" * 64},
    }.get(key, hostile)
    (bundle / "config.json").write_text(json.dumps(config))
    assert run(["info", str(bundle)]) == 2
    said = capfdbinary.readouterr()
    assert said.out == b"" and said.err.decode().count("\n") == 1
    assert not set(said.err) & {0x1B, 0x07}
