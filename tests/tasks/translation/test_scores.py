import pytest

from crosshead.errors import ConfigError, DataError
from crosshead.tasks.likelihood import perplexity
from crosshead.tasks.loading import load
from crosshead.tasks.translation.scores import evaluate
from tests.tasks.translation.translators import STORED


def test_perplexity_needs_no_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = load(STORED, "cpu")
    monkeypatch.setattr(translator, "translate", None)
    [score] = evaluate(translator, ["One."], ["Eins."], ["perplexity"])
    scored = translator.score(["One."], ["Eins."])
    assert score == perplexity(scored, translator.bundle.target_tokenizer)
    assert "|tok:bpe|vocab:330|" in score.signature


def test_scores_are_in_the_order_asked_for() -> None:
    lines = ["One two three.", "Ten four eight."]
    translator = load(STORED, "cpu")
    names = ["ter", "perplexity", "bleu"]
    scores = evaluate(translator, lines, translator(lines), names)
    assert [each.metric for each in scores] == ["TER", "perplexity", "BLEU"]


def test_a_text_is_no_list_of_sentences() -> None:
    translator = load(STORED, "cpu")
    with pytest.raises(DataError, match=r"^sources: .* found 't.en'; read the lines of a file"):
        evaluate(translator, "t.en", "t.de")
    with pytest.raises(DataError, match=r"^references: expected a list of sentences, found 't.de'"):
        evaluate(translator, ["a"], "t.de")


def test_what_is_no_translator_is_named() -> None:
    with pytest.raises(ConfigError, match=r"translator: expected a Translator, .* found str$"):
        evaluate("runs/dates", ["a"], ["a"])  # type: ignore[arg-type]
