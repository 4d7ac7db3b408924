"""Translation: the languages of a run, and the scores of its validation."""

from collections.abc import Callable

import pytest

from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.translation.task import (
    TranslationTask,
    TranslationValidator,
    with_languages,
)
from crosshead.tasks.translation.translator import Translator
from crosshead.tasks.usability import Findings
from tests.tasks.validators import (
    weights,
)


def found(data: dict[str, object], *assignments: str) -> tuple[tuple[str | None, str | None], int]:
    """The languages of a recipe of these data, and how many lines say so."""
    recipe: Recipe = compose(flags={"data": data}, assignments=assignments)
    filled, lines = with_languages(recipe)
    return (filled.data.source_language, filled.data.target_language), len(lines)


@pytest.mark.parametrize(
    ("data", "languages"),
    [
        ({"source": "a/train.en", "target": "a/train.de.gz"}, ("en", "de")),
        ({"source": ["a.en", "b.en"], "target": ["a.haw", "b.haw"]}, ("en", "haw")),
        ({"source": ["a.en", "b.txt"], "target": ["a.de", "b.txt"]}, ("en", "de")),
        ({"pairs": "x.csv", "fields": ["en", "pt_BR"]}, ("en", "pt-BR")),
        ({"pairs": "x.jsonl", "fields": ["de", "cs"]}, ("de", "cs")),
        ({"pairs": "x.jsonl", "fields": ["translation.de", "translation.cs"]}, ("de", "cs")),
        ({"source": "a.en", "target": "a.de", "pairs": "x.tsv"}, ("en", "de")),
        ({"source": "a.txt", "target": "b.txt"}, (None, None)),
        ({"source": "a.src", "target": "b.tgt"}, (None, None)),
        ({"source": "a.en", "target": "b.out"}, (None, None)),
        ({"source": "src.en", "target": "tgt.en"}, (None, None)),
        ({"source": ["a.en", "b.fr"], "target": ["a.de", "b.de"]}, (None, None)),
        (
            {"source": "a.en", "target": "a.de", "pairs": "x.tsv", "fields": ["fr", "de"]},
            (None,) * 2,
        ),
        ({"pairs": "x.tsv", "fields": ["1", "2"]}, (None, None)),
        ({"pairs": "x.tsv"}, (None, None)),
        ({"text": "book.en"}, (None, None)),
    ],
)
def test_names_tell_languages(
    data: dict[str, object], languages: tuple[str | None, str | None]
) -> None:
    assert found(data) == (languages, int(languages[0] is not None))


def test_what_is_stated_stays() -> None:
    data = {"source": "a.txt", "target": "a.de"}
    both = found(data, "source_language=fr", "target_language=de")
    assert both == (("fr", "de"), 0)
    assert found(data, "source_language=fr") == (("fr", "de"), 1)


def test_auto_says_that_it_chooses_nothing_for_another_architecture() -> None:
    data = {"source": "a.en", "target": "a.de"}
    recipe = compose("auto", flags={"data": data, "model": {"architecture": "recurrent"}})
    settled, [line] = TranslationTask().settle(recipe, None, None)  # type: ignore[arg-type]
    assert settled is recipe
    assert line.startswith("auto: settings are chosen only for the architecture transformer; ")
    assert line.endswith("recurrent has those of the preset tiny")


@pytest.mark.parametrize("code", ["english", "e", "", "en de", "de_", "EN"])
def test_what_is_no_code_is_refused(code: str) -> None:
    with pytest.raises(ConfigError, match=r"source_language: expected a language code"):
        compose(flags={"data": {"source": "a", "target": "b", "source_language": code}})


def test_the_fields_of_both_sides_differ() -> None:
    with pytest.raises(ConfigError, match="needs two fields"):
        compose(flags={"data": {"pairs": "a.csv", "fields": ["de", "de"]}})


def test_the_bleu_on_the_way_is_greedy_and_that_of_the_end_the_recipes(
    validator: TranslationValidator,
) -> None:
    chosen = weights(validator, 1)
    found, scores = validator.validate(chosen), validator.findings(chosen).scores
    valid, translator = validator.corpus.valid, Translator(validator.bundle_of(chosen))
    longer = max(len(target) - len(one) for one, target in validator.corpus.valid_examples)
    extra = min(max(0, longer) + 5, validator.recipe.decode.max_extra)
    for decode, value in (
        (DecodeConfig(beam=1, max_extra=extra), found.values["bleu"]),
        (validator.recipe.decode, scores[0].value),
    ):
        best = translator.translate(valid.source, decode=decode)
        assert bleu([each[0].text for each in best], valid.target) == pytest.approx(value)
    assert [(score.metric, score.test_set) for score in scores] == [
        ("BLEU", "validation"), ("chrF2", "validation"),
    ]  # fmt: skip
    assert all("version" in score.signature for score in scores)


@pytest.mark.parametrize(
    "validates", [TranslationValidator.validate, TranslationValidator.findings]
)
def test_whoever_asks_for_the_end_does_not_wait_for_all_batches(
    validates: Callable[..., object], validator: TranslationValidator
) -> None:
    looks = iter([False, True])
    validator.should_stop = lambda: next(looks)
    with pytest.raises(Stopped):
        validates(validator, weights(validator, 1))


def test_samples_of_translations_are_those_that_are_scored(validator: TranslationValidator) -> None:
    chosen = weights(validator, 1)
    found, valid = validator.findings(chosen), validator.corpus.valid
    translator = Translator(validator.bundle_of(chosen))
    best = translator.translate(valid.source, decode=validator.recipe.decode)
    made = dict(zip(valid.source, (each[0].text for each in best), strict=True))
    assert 1 <= len(found.samples) <= 5
    for sample in found.samples:
        assert sample.expected == sample.input.upper()
        assert sample.output == made[sample.input]
    assert any("BLEU" in fault for fault in found.faults)  # nothing was learned
    assert validator.validations_to_score == 2


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_findings_claim_nothing_if_most_validation_pairs_are_training_pairs(
    validator: TranslationValidator, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "crosshead.tasks.translation.task.translation_findings",
        lambda *arguments: Findings([], remarks=["Usable."]),
    )
    count = len(validator.corpus.valid)
    seen = {"valid_in_training": round(share * count)}
    validator.corpus.__dict__.update(seen)
    first, *others = validator.findings(weights(validator, 1)).remarks
    assert first.startswith(f"{round(share * count)} of {count} validation pairs are also training")
    assert ("Usable." in others) == (share < 0.5)
