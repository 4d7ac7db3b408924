import asyncio
import dataclasses
import json
import shutil
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from crosshead.addons.serving.directory import Directory, ServeError, load_directory
from crosshead.addons.serving.reading import Reading
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.addons.serving.service import Job, Service
from crosshead.bundle.io import save_bundle
from crosshead.errors import BundleError
from crosshead.tasks.translation.engine import engines_of
from crosshead.tasks.translation.translator import Translator
from tests.addons.interop.small_bundles import small_bundle
from tests.addons.serving.loopback import running
from tests.bundle.text_bundles import bundle_of
from tests.conftest import ROOT
from tests.hub_server import Hub, contents

BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"


def load(*places: str) -> Directory:
    return load_directory(places, lambda line: None, "cpu")


def test_languages_come_from_the_card_or_from_the_command() -> None:
    said: list[str] = []
    named = f"de-fr={BUNDLE}"
    directory = load_directory([str(BUNDLE), named], said.append, "cpu")
    assert list(directory.pairs) == [("en", "de"), ("de", "fr")]
    assert said == [
        f"loading {BUNDLE} (1 of 2)",
        f"loading {BUNDLE} as de-fr (2 of 2)",
    ]


def test_codes_have_their_usual_case_so_that_one_pair_is_not_served_twice() -> None:
    directory = load(f"DE-en={BUNDLE}", f"en-PT-br={BUNDLE}", f"ZH-hANS-en={BUNDLE}")
    assert list(directory.pairs) == [("de", "en"), ("en", "pt-BR"), ("zh-Hans", "en")]
    other = load(f"en-pt-PT={BUNDLE}", f"pt-PT-en={BUNDLE}", f"zh-Hant-en={BUNDLE}")
    assert list(other.pairs) == [("en", "pt-PT"), ("pt-PT", "en"), ("zh-Hant", "en")]
    said: list[str] = []
    with pytest.raises(ServeError, match="both translate en to de"):
        load_directory([str(BUNDLE), f"EN-de={BUNDLE}"], said.append, "cpu")
    assert said == [f"loading {BUNDLE} (1 of 2)", f"loading {BUNDLE} as en-de (2 of 2)"]


def test_a_name_that_is_no_pair_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServeError) as refused:
        load(f"en={BUNDLE}")
    assert str(refused.value) == f"en={BUNDLE}: en is no language pair; write it as en-de=PATH"
    monkeypatch.chdir(tmp_path)
    shutil.copytree(BUNDLE, "en=bundle")  # a folder of this name is a path
    assert list(load("en=bundle").pairs) == [("en", "de")]


def test_a_way_is_direct_or_by_a_third_language() -> None:
    directory = load(str(BUNDLE), f"de-fr={BUNDLE}", f"fr-cs={BUNDLE}")

    def shown(source: str, target: str) -> list[str] | None:
        way = directory.way(source, target)
        return None if way is None else [f"{each.source}-{each.target}" for each in way]

    assert shown("en", "de") == ["en-de"]
    assert shown("en", "fr") == ["en-de", "de-fr"]
    assert shown("en", "cs") is None and shown("de", "en") is None and shown("de", "de") == []
    assert directory.targets("en") == ["de", "en", "fr"]


def test_a_larger_number_of_hypotheses_has_a_larger_beam() -> None:
    [route] = load(str(BUNDLE)).pairs.values()
    beam = route.translator.bundle.config.decode.beam
    assert route.engine(1) is route.engine(beam)
    assert route.engine(beam + 3).beam == beam + 3


def test_two_bundles_of_one_pair_are_refused(tmp_path: Path) -> None:
    shutil.copytree(BUNDLE, tmp_path / "other")
    with pytest.raises(ServeError, match="both translate en to de; serve one of them"):
        load(str(BUNDLE), str(tmp_path / "other"))
    with pytest.raises(ServeError) as refused:
        load(str(BUNDLE), f"en-de={BUNDLE}")
    assert str(refused.value).startswith(f"{BUNDLE} and en-de={BUNDLE} both translate en to de;")


def test_a_bundle_without_languages_is_told_how_to_name_them(tmp_path: Path) -> None:
    save_bundle(tmp_path / "b", bundle_of(), "card")
    with pytest.raises(ServeError, match=r"name them, such as `crosshead serve en-de="):
        load(str(tmp_path / "b"))
    assert list(load(f"pt-BR-de={tmp_path / 'b'}").pairs) == [("pt-BR", "de")]


def test_a_bundle_that_samples_is_refused_and_what_the_message_says_helps(tmp_path: Path) -> None:
    bundle, place = bundle_of(), tmp_path / "b"
    decode = bundle.config.decode.model_copy(update={"sample": True, "beam": 1})
    config = bundle.config.model_copy(update={"decode": decode})
    save_bundle(place, dataclasses.replace(bundle, config=config), "card")
    with pytest.raises(ServeError, match="draws samples") as refused:
        load(f"en-de={place}")
    assert "\n" not in str(refused.value)
    assert "in its config.json, set decode.sample to false and remove config_sha256" in str(
        refused.value
    )
    stored = json.loads((place / "config.json").read_text())
    stored["decode"]["sample"] = False
    del stored["config_sha256"]
    (place / "config.json").write_text(json.dumps(stored))
    assert list(load(f"en-de={place}").pairs) == [("en", "de")]


def test_a_model_on_a_hub_is_served(hub: Hub) -> None:
    hub.repository("anna/en-de", contents(BUNDLE))
    directory = load_directory(["xx-yy=hf://anna/en-de"], lambda line: None)
    assert directory.pairs["xx", "yy"].place == "xx-yy=hf://anna/en-de"


def test_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such directory"):
        load(str(tmp_path / "missing"))


@pytest.mark.slow
def test_a_bundle_of_several_targets_has_a_route_for_each(tmp_path: Path) -> None:
    save_bundle(tmp_path / "b", small_bundle(languages=True, seed=3), "card")
    directory = load(str(tmp_path / "b"))
    assert list(directory.pairs) == [("en", "de"), ("en", "fr")]
    german, french = directory.pairs.values()
    assert german.engine(1) is french.engine(1)  # both languages share batches
    lines = ["a dog runs", "two men sit on a bench"]
    scheduler, pieces = Scheduler(), []
    service = Service(scheduler, directory)
    for route in (german, french):
        job = Job(lines, [route], "client", Reading(), time.monotonic() + 60)
        [found] = asyncio.run(service.translate_all([job]))
        expected = Translator(route.translator.bundle).into(route.target).translate(lines)
        pieces.append([text.sentences[0].translations[0].pieces for text in found])
        assert pieces[-1] == [best[0].pieces for best in expected]
    assert pieces[0] != pieces[1]
    scheduler.stop(10)


@pytest.mark.skipif(find_spec("ctranslate2") is None, reason="needs `export`")
def test_a_server_translates_with_another_engine(own_directory: Directory) -> None:
    places = [f"en-de={BUNDLE}", f"de-fr={BUNDLE}"]
    theirs = load_directory(places, lambda line: None, "cpu", engines_of("ctranslate2", None, 2))
    values = {
        "q": ["One two three.", "Ten nine.", "A dog runs."],
        "source": "en",
        "target": "fr",
        "alternatives": 2,
    }
    with running(own_directory) as own, running(theirs) as other:
        expected, found = (each.post("/translate", values).json for each in (own, other))
        v1 = other.post(
            "/v1/translate", {"text": "One two three.", "target": "de", "source": "en"}
        ).json
    assert found["translatedText"] == expected["translatedText"]
    [sentence] = v1["translations"][0]["sentences"]
    assert len(sentence["translations"][0]["pieces"]) == len(
        sentence["translations"][0]["piece_log_probs"]
    )
