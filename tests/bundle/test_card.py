from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from crosshead.bundle.card import (
    CardFacts,
    CardFile,
    Words,
    command_shown,
    inline_code,
    model_card,
    without_place,
)
from crosshead.bundle.config import BundleScore
from crosshead.tasks.translation.translator import Translator


def score(metric: str, value: float, signature: str, test_set: str) -> BundleScore:
    return BundleScore(metric=metric, value=value, signature=signature, test_set=test_set)


def words(source: str | None, target: str | None, *tags: str) -> Words:
    config: Any = SimpleNamespace(
        source_language=source, target_language=target, target_languages=list(tags)
    )
    return Translator.words(config)


FACTS = CardFacts(
    name="en-no",
    commands=["crosshead train --source train.en --target train.no --out en-no"],
    recipe='[model]\nd_model = 128\n\n[data]\nsource = ["train.en"]\n',
    files=[CardFile("data/train.en", 29000, "ab" * 32), CardFile("odd|name`.no", 29000, "cd" * 32)],
    words=words("en", "no"),
    architecture="transformer",
    unit="pair",
    unit_name="sentence pairs",
    size=28900,
    left_out={"too long": 98, "empty side": 2},
    validation="500 pairs held out of the training files",
    weights="the average of the checkpoints at updates 4000 and 5000",
    parameters=4321000,
    updates=5000,
    epochs=12.345,
    seconds=3540.0,
    device="cpu",
    threads=2,
    cores=4,
    precision="float32",
    seed=7,
    versions={"crosshead": "0.1.0", "torch": "2.13.0"},
    scores=[
        score("BLEU", 38.123, "nrefs:1|case:mixed|tok:13a", "test_2016"),
        score("chrF2", 61.5, "nrefs:1|nc:6", "test_2016"),
        score("BLEU", 40.0, "nrefs:1|case:mixed|tok:13a", "validation"),
    ],
)


def front_matter(card: str) -> dict[str, object]:
    _, front, _ = card.split("---\n", 2)
    values = yaml.safe_load(front)
    assert isinstance(values, dict)
    return values


def test_the_front_matter_is_what_model_hubs_read() -> None:
    values = front_matter(model_card(FACTS))
    assert values["language"] == ["en", "no"]  # and not False, which a bare `no` is in YAML
    assert values["library_name"] == "crosshead"
    assert values["pipeline_tag"] == "translation"
    index = values["model-index"]
    assert isinstance(index, list)
    assert index[0]["name"] == "en-no"
    test, valid = index[0]["results"]
    assert test["task"] == {"type": "translation"}
    assert test["dataset"]["name"] == "test_2016"
    assert [(m["type"], m["value"]) for m in test["metrics"]] == [("bleu", 38.12), ("chrf", 61.5)]
    assert [m["value"] for m in valid["metrics"]] == [40.0]


def test_a_licence_is_a_text_whatever_it_is_called() -> None:
    assert front_matter(model_card(replace(FACTS, licence="no")))["license"] == "no"


def test_what_is_unknown_is_left_out() -> None:
    values = front_matter(model_card(replace(FACTS, scores=[], words=words(None, None))))
    assert values.keys() == {"library_name", "pipeline_tag", "tags"}


@pytest.mark.parametrize("name", ["a: b", '"quoted"', "- dash", "#5", "new\nline", "ü"])
def test_any_name_is_valid_yaml(name: str) -> None:
    index = front_matter(model_card(replace(FACTS, name=name)))["model-index"]
    assert isinstance(index, list)
    assert index[0]["name"] == name


def test_the_text_says_how_the_model_came_to_be() -> None:
    card = model_card(FACTS)
    for fact in (
        "crosshead train --source train.en --target train.no --out en-no\n```",
        FACTS.recipe.strip(),
        "28,900",
        "ab" * 32,
        "| too long | 98 |",
        FACTS.validation,
        FACTS.weights,
        "4,321,000",
        "59.0 minutes",
        "2 threads of 4 cores",
        "torch 2.13.0",
        "from `en` to `no`",
    ):
        assert fact in card


def test_languages_are_named_as_far_as_they_are_known() -> None:
    source_alone, neither = (
        replace(FACTS, words=words("en", None)),
        replace(FACTS, words=words(None, None)),
    )
    assert "that translates from `en`:" in model_card(source_alone)
    assert "that translates from one language to another:" in model_card(neither)


def test_every_command_of_a_run_and_the_search_of_its_scores_are_told() -> None:
    card = model_card(replace(FACTS, commands=["first", "second --resume"], search="beam 7"))
    assert "```sh\nfirst\nsecond --resume\n```" in card
    assert "Search: beam 7." in card


def test_skipped_updates_are_told_where_there_are_any() -> None:
    assert "| updates | 5,000 |" in model_card(FACTS)
    assert "| updates | 5,000, 3 of them skipped" in model_card(replace(FACTS, skipped=3))


def test_inline_code_is_one_line() -> None:
    assert inline_code("mit\n---\n# `x`") == "`mit --- # 'x'`"


def test_a_bar_does_not_break_a_table() -> None:
    lines = model_card(FACTS).split("\n")
    row = next(line for line in lines if "tok:13a" in line)
    assert row.replace("\\|", "").count("|") == 5
    assert "nrefs:1\\|case:mixed\\|tok:13a" in row


def test_a_recipe_with_back_ticks_stays_in_its_block() -> None:
    card = model_card(replace(FACTS, recipe='special = ["```"]'))
    assert '````toml\nspecial = ["```"]\n````' in card


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("crosshead train --source data/a.en ../b", "crosshead train --source data/a.en ../b"),
        ("crosshead train --source /home/me/a.en /x/b/", "crosshead train --source a.en b"),
        ("crosshead train --out=/home/me/x", "crosshead train --out=x"),
        ("crosshead train '/home/me/my texts/a'", "crosshead train a"),
        (
            "crosshead train --set 'data.source=[\"/home/me/a\", \"b/c\"]'",
            "crosshead train --set 'data.source=[\"a\", \"b/c\"]'",
        ),
        ("x --special '</s>' https://a.org/b / a/b", "x --special '</s>' https://a.org/b / a/b"),
        ("not 'a command", "not 'a command"),
    ],
)  # fmt: skip
def test_a_card_shows_no_absolute_path(typed: str, shown: str) -> None:
    assert command_shown(typed) == shown


def test_a_file_is_shown_as_typed_or_by_its_name() -> None:
    for typed, shown in (("a/b", "a/b"), ("/home/me/b", "b"), ("/home/me/b/", "b")):
        assert without_place(typed) == shown


def test_a_model_of_several_directions_is_used_with_a_language() -> None:
    found = words(None, None, "de", "fr")
    assert found.does == "translates to `de` and `fr`"
    assert found.command == "crosshead translate DIR input.txt --to de"
    assert found.call == 'translate.into(\'de\')(["A first line.", "Another."])'
    assert [code for code in found.languages if code] == ["de", "fr"]


def test_an_interval_has_a_column_where_one_was_measured() -> None:
    assert "95 % interval" not in model_card(FACTS)
    measured = FACTS.scores[0].model_copy(update={"low": 37.04, "high": 39.2})
    card = model_card(replace(FACTS, scores=[measured, *FACTS.scores[1:]]))
    assert "| metric | score | 95 % interval | set | signature |" in card
    assert "| BLEU | 38.12 | 37.04 to 39.20 | `test_2016` |" in card
    assert "| chrF2 | 61.50 |  | `test_2016` |" in card
