"""The engine of CTranslate2 beside crosshead's own, on the stored bundle."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from crosshead.addons.interop import ctranslate2_engine as module
from crosshead.addons.interop.ctranslate2_engine import CTranslate2Engine, ctranslate2_engines
from crosshead.addons.interop.ctranslate2_model import CTranslate2Model
from crosshead.addons.serving.directory import load_directory
from crosshead.bundle.io import save_bundle
from crosshead.errors import ConfigError
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.engine import Query
from crosshead.tasks.translation.model_engine import ModelEngine, model_engines
from crosshead.tasks.translation.translator import Translator
from tests.addons.interop.small_bundles import small_bundle
from tests.addons.serving.loopback import running
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(find_spec("ctranslate2") is None, reason="needs the extra `export`")

BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"
LINES = ["One two three.", "Ten nine.", "A dog runs.", "Seven", "Four five six seven eight nine."]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load_as(Translator, BUNDLE, "cpu")


def engines_of(translator: Translator, beam: int) -> tuple[CTranslate2Engine, ModelEngine]:
    theirs = ctranslate2_engines(None, 1)(translator)(beam)
    assert isinstance(theirs, CTranslate2Engine)
    return theirs, model_engines(translator)(beam)


@pytest.mark.parametrize("beam", [1, 4])
def test_hypotheses_and_scores_are_those_of_crosshead(translator: Translator, beam: int) -> None:
    theirs, own = engines_of(translator, beam)
    ids = translator.planned(LINES, 0).ids
    queries = [Query(number, each, 30, 1) for number, each in enumerate(ids)]
    found = theirs.batch().add(queries)
    assert sorted(found) == list(range(len(LINES)))
    batch = own.batch()
    expected = batch.add(queries)
    while len(batch):
        expected |= batch.step()
    for number, [hypothesis] in found.items():
        [other] = expected[number]
        assert (hypothesis.tokens, hypothesis.finished) == (other.tokens, other.finished)
        # Theirs leave out the tokens that search never produces, and are a little larger.
        assert hypothesis.score == pytest.approx(other.score, abs=2e-3)
        assert hypothesis.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-2)
    assert theirs.bytes(2, 8, 8) == own.bytes(2, 8, 8) > 0


def test_every_sentence_has_its_own_limit_and_number_of_hypotheses(translator: Translator) -> None:
    engine, _ = engines_of(translator, 4)
    ids = translator.planned(LINES, 0).ids
    queries = [Query(n, each, 2 + 9 * n, 1 + n % 3) for n, each in enumerate(ids)]
    together = engine.batch().add(queries)
    for query in queries:
        hypotheses = together[query.number]
        assert len(hypotheses) == query.n_best
        assert all(len(each.token_log_probs) <= query.max_length for each in hypotheses)
        [alone] = engine.batch().add([query]).values()
        assert [each.tokens for each in hypotheses] == [each.tokens for each in alone]
    assert not all(each.finished for each in together[0])  # two tokens are not enough


def test_finished_hypotheses_come_before_those_that_are_cut_off(translator: Translator) -> None:
    engine, _ = engines_of(translator, 4)
    [ids] = translator.planned(["A dog runs."], 0).ids
    mixed = 0
    for limit in range(6, 12):
        [every] = engine.batch().add([Query(0, ids, limit, 4)]).values()
        finished = [each.finished for each in every]
        assert finished == sorted(finished, reverse=True)
        mixed += len(set(finished)) == 2 and every[0].score < max(each.score for each in every)
        for one in ([Query(0, ids, limit, 1)], [Query(0, ids, limit, 1), Query(1, ids, 30, 1)]):
            assert engine.batch().add(one)[0][0].tokens == every[0].tokens
    assert mixed  # at some limit a hypothesis that was cut off has the best score


def test_int8_is_another_model_and_other_formats_are_refused(translator: Translator) -> None:
    engine = ctranslate2_engines("int8", 1)(translator)(1)
    [ids] = translator.planned(LINES[:1], 0).ids
    [[hypothesis]] = engine.batch().add([Query(0, ids, 30, 1)]).values()
    [[other]] = engines_of(translator, 1)[0].batch().add([Query(0, ids, 30, 1)]).values()
    assert hypothesis.log_prob != other.log_prob
    with pytest.raises(ConfigError, match="no number format 'int4'"):
        ctranslate2_engines("int4", 1)


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_it_does_not_suit_models_that_know_unknown_words(kind: str) -> None:
    bundle = small_bundle({}, {"kind": kind})
    decode = bundle.config.decode.model_copy(update={"beam": 1})
    assert ctranslate2_engines.suits(Translator(bundle), decode) == (kind != "words")


def test_a_model_that_it_cannot_express_is_refused(tmp_path: Path) -> None:
    save_bundle(tmp_path / "b", small_bundle({"score": "cosine"}), "card")
    with pytest.raises(ConfigError, match=r"cannot compute model\.score = cosine"):
        load_directory(
            [f"en-de={tmp_path / 'b'}"], lambda line: None, "cpu", ctranslate2_engines(None, 1)
        )


def test_a_server_scores_only_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bundles = load_directory(
        [f"en-de={BUNDLE}", f"de-fr={BUNDLE}"], lambda line: None, "cpu",
        ctranslate2_engines(None, 1),
    )  # fmt: skip
    scored: list[int] = []
    log_probs = CTranslate2Model.log_probs

    def noted(
        self: CTranslate2Model, sources: list[list[str]], outputs: list[list[int]]
    ) -> list[list[float]]:
        scored.append(len(outputs))
        return log_probs(self, sources, outputs)

    monkeypatch.setattr(CTranslate2Model, "log_probs", noted)
    values = {"q": LINES[0], "source": "en", "target": "de"}
    with running(bundles) as server:
        plain = server.post("/translate", values).json["translatedText"]
        deepl = {"text": [LINES[0]], "source_lang": "EN", "target_lang": "DE"}
        assert server.post("/v2/translate", deepl).json["translations"][0]["text"] == plain
        assert scored == []
        several = server.post("/translate", values | {"alternatives": 2}).json
        assert several["translatedText"] == plain and scored == [3]
        asked = {"text": LINES[0], "source": "en", "target": "fr"}
        [found] = server.post("/v1/translate", asked).json["translations"]
    assert scored == [3, 1] and -100 < found["score"] < 0  # the last of two translations


class Elsewhere:
    """CTranslate2 on a machine with GPUs: what a translator is made with."""

    def __init__(self, error: str = "") -> None:
        self.error, self.given = error, dict[str, object]()

    def Translator(self, folder: str, **given: object) -> object:
        self.given = given
        if self.error:
            raise RuntimeError(self.error)
        return object()


def test_it_computes_on_the_device_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Elsewhere()
    monkeypatch.setattr(module, "library", lambda: found)
    for name, device, index in (("cuda:1", "cuda", 1), ("cuda", "cuda", 0), ("cpu", "cpu", 0)):
        module._translator("folder", torch.device(name), 3)
        expected = {"device": device, "device_index": index}
        assert found.given == expected | {"inter_threads": 3, "intra_threads": 1}


@pytest.mark.parametrize(
    ("device", "there", "reason"),
    [
        ("mps", None, "mps"),  # the real library
        ("cuda", Elsewhere("Library libcublas.so.12\nis not found"), "libcublas.so.12 is not"),
    ],
)
def test_a_device_that_it_cannot_use_is_refused_in_one_line(
    device: str, there: Elsewhere | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there is not None:
        monkeypatch.setattr(module, "library", lambda: there)
    with pytest.raises(ConfigError, match="use `--device cpu`") as refused:
        module._translator("folder", torch.device(device), 1)
    assert reason in str(refused.value) and "\n" not in str(refused.value)
