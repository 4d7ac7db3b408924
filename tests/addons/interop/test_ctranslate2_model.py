import math
import os
from importlib.util import find_spec
from typing import Any

import pytest

from crosshead.addons.interop import ctranslate2_model
from crosshead.addons.interop.ctranslate2_engine import ctranslate2_engines
from crosshead.addons.interop.ctranslate2_model import CTranslate2Batch, library
from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.engine import Query
from crosshead.tasks.translation.translator import Translator
from crosshead.text.markers import MARKERS
from tests.tasks.translation.translators import STORED, untrained

pytestmark = pytest.mark.skipif(find_spec("ctranslate2") is None, reason="needs the extra `export`")


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load_as(Translator, STORED, "cpu")


def test_a_sentence_whose_scores_nobody_reads_is_not_scored(translator: Translator) -> None:
    engine = ctranslate2_engines(None, 1)(translator)(4)
    ids = translator.planned(["One two three.", "Ten nine.", "A dog runs.", "Seven"], 0).ids
    scored = engine.batch().add([Query(n, each, 30, 1 + n % 2) for n, each in enumerate(ids)])
    mixed = engine.batch().add(
        [Query(n, each, 30, 1 + n % 2, scored=n > 2) for n, each in enumerate(ids)]
    )
    for number in range(len(ids)):
        for one, other in zip(scored[number], mixed[number], strict=True):
            assert (one.tokens, one.finished) == (other.tokens, other.finished)
            assert len(one.token_log_probs) == len(other.token_log_probs)
            if number > 2:
                assert one.score == pytest.approx(other.score, abs=1e-4)
            else:
                assert all(map(math.isnan, other.token_log_probs))
                assert one.score == pytest.approx(other.score, abs=2e-3)


@pytest.mark.parametrize(
    ("saturates", "given", "expected"),
    [(True, None, "1"), (True, "0", "0"), (False, None, None)],
)
def test_mkl_is_chosen_where_bytes_would_overflow(
    saturates: bool, given: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctranslate2_model, "saturates_int8", lambda: saturates)
    monkeypatch.setenv("CT2_USE_MKL", given or "")
    if given is None:
        monkeypatch.delenv("CT2_USE_MKL")
    assert hasattr(library(), "Translator")
    assert os.environ.get("CT2_USE_MKL") == expected


def test_a_library_that_the_caller_has_imported_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    library()
    monkeypatch.setattr(ctranslate2_model, "saturates_int8", lambda: True)
    monkeypatch.setenv("CT2_USE_MKL", "")
    monkeypatch.delenv("CT2_USE_MKL")
    library()
    assert "set CT2_USE_MKL=1 before the program starts" in caplog.text


def test_of_sentences_with_marks_a_hypothesis_comes_first_that_has_each_mark_once() -> None:
    reads_marks = untrained(
        TransformerConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2),
        [*MARKERS],
    )
    batch = ctranslate2_engines(None, 1)(reads_marks)(4).batch()
    assert isinstance(batch, CTranslate2Batch)
    marks = reads_marks.bundle.marks
    ids = [marks[0], 70, marks[1], 71]
    found = [
        ([marks[0], marks[0], 70], -0.1), ([marks[2]], -0.2), ([marks[1], 70, marks[0]], -0.3),
        ([70], -0.4),
    ]  # fmt: skip
    batch.model.search = lambda *arguments: [list(found)]  # type: ignore[method-assign]
    [[first, second]] = batch.add([Query(0, ids, 9, 2, scored=False)]).values()
    assert first.tokens == found[2][0] and second.tokens == [70]


def test_sentences_at_their_own_limit_are_searched_again_together() -> None:
    config = TransformerConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2)
    batch = ctranslate2_engines(None, 1)(untrained(config, [*MARKERS]))(4).batch()
    assert isinstance(batch, CTranslate2Batch)
    searched: list[tuple[int, int]] = []

    def search(*given: Any) -> list[list[tuple[list[int], float]]]:
        sources, limit = given[-3:-1]
        searched.append((len(sources), limit))
        return [[([70] * limit, -0.1)] for _ in sources]

    batch.model.search = search  # type: ignore[method-assign]
    limits = (5, 9, 5, 30)
    found = batch.add([Query(n, [70], limit, 1, False) for n, limit in enumerate(limits)])
    assert searched[0] == (4, 30) and sorted(searched[1:]) == [(1, 9), (1, 30), (2, 5)]
    assert [len(found[n][0].tokens) for n in range(4)] == [*limits]
