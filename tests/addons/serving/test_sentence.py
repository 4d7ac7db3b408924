import logging

import pytest

from crosshead.addons.serving.sentence import Failed, Result, Sentence, TooLong
from tests.addons.serving.test_model_engine import engine_of
from tests.models.small_transformers import TINY, model_of


def test_the_work_counts_tokens_eos_and_rows() -> None:
    sentence = Sentence(engine_of(model_of(TINY), beam=3), [5, 6], 9, 1, 0.0, lambda result: None)
    assert sentence.cost == 9.0


def test_it_is_over_when_it_is_withdrawn_or_late() -> None:
    sentence = Sentence(engine_of(model_of(TINY)), [5], 9, 1, 10.0, lambda result: None)
    assert sentence.over(10.0) and not sentence.over(9.0)
    sentence.withdrawn = True
    assert sentence.over(9.0)


def test_only_who_waits_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    found: list[Result] = []

    def done(result: Result) -> None:
        found.append(result)
        raise RuntimeError("a secret text")

    sentence = Sentence(engine_of(model_of(TINY)), [5], 9, 1, 10.0, done)
    with caplog.at_level(logging.ERROR):
        sentence.answer(Failed("no"))
    assert len(found) == 1 and "RuntimeError" in caplog.text and "secret" not in caplog.text
    sentence.withdrawn = True
    sentence.answer(Failed("no"))
    assert len(found) == 1


def test_a_text_that_is_too_long_is_told_how_long() -> None:
    assert str(TooLong(61.2, 9.98)) == (
        "the text would take about 62 seconds, and a request may take 10; send it in parts"
    )
