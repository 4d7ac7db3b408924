import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest

from crosshead.bundle import load_bundle
from crosshead.card import CardFacts, CardScore, model_card
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.evaluation import CorpusScore
from crosshead.reports import (
    bundle_facts,
    metric_names,
    scores_jsonl,
    scores_table,
    search_settings,
)

BUNDLE = Path(__file__).parent / "fixtures" / "bundle-format-1"
FACTS = CardFacts(
    name="n", command="c", recipe="", files=[], pairs=1, left_out={}, validation="v", weights="w",
    parameters=1, updates=1, epochs=1, seconds=1.0, device="cpu", threads=1, cores=1,
    precision="float32", seed=1, versions={},
)  # fmt: skip


def test_the_search_is_the_bundles_but_for_what_is_given() -> None:
    says = DecodeConfig(beam=3, length_penalty=0.2)
    found = search_settings(says, False, {"beam": None, "length_penalty": 1.0}, None)
    assert found == DecodeConfig(beam=3, length_penalty=1.0)
    assert search_settings(says, False, {}, 3) == says
    with pytest.raises(ConfigError, match="give --beam 4"):
        search_settings(says, False, {}, 4)
    sampled = search_settings(says, True, {"top_k": 5}, 4)
    assert (sampled.sample, sampled.beam, sampled.top_k) == (True, 1, 5)


def test_metrics_are_named_by_commas() -> None:
    assert metric_names("bleu, perplexity", "none", ["perplexity"]) == ["bleu", "perplexity"]
    with pytest.raises(ConfigError, match="did you mean 'chrf'"):
        metric_names("chrff", None)


def test_a_score_without_an_interval_says_nothing_of_one() -> None:
    scores = [
        CorpusScore("BLEU", 30.123, 29.0, 31.0, "sig"),
        CorpusScore("perplexity", 4.0, math.nan, math.nan, ""),
    ]
    rows = [json.loads(line) for line in scores_jsonl(scores).splitlines()]
    assert rows[0] == dataclasses.asdict(scores[0])
    assert rows[1] == {"metric": "perplexity", "value": 4.0}
    assert scores_table(scores).splitlines()[1:] == [
        "BLEU        30.12  29.00 to 31.00  sig",
        "perplexity  4.00",
    ]


def test_the_scores_of_a_card_are_read_back(tmp_path: Path) -> None:
    directory = tmp_path / "bundle"
    shutil.copytree(BUNDLE, directory)
    bundle = load_bundle(directory)
    scores = [CardScore("BLEU", 38.125, "nrefs:1|tok:13a", "a|b")]
    card = model_card(dataclasses.replace(FACTS, scores=scores))
    (directory / "README.md").write_text(card)
    assert bundle_facts(directory, bundle)[-1] == ["BLEU", "38.12 on a|b (nrefs:1|tok:13a)"]
    (directory / "README.md").unlink()
    assert bundle_facts(directory, bundle)[-1] == ["card", "README.md is missing"]
