import dataclasses
import json

import pytest

from crosshead.cli.evaluation import metric_names, scores_jsonl, scores_table
from crosshead.errors import ConfigError
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.evaluation.comparison import ComparedScore


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
