from pathlib import Path

import pytest
import torch

import crosshead
from crosshead.bundle.files import pack
from crosshead.bundle.io import save_bundle
from crosshead.bundle.places import HubError, hub_place
from crosshead.errors import BundleError, ConfigError
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.loading import load, load_as, local_bundle
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.registry import TASKS
from crosshead.tasks.translation.ensemble import EnsembleTranslator
from crosshead.tasks.translation.translator import Translator
from tests.hub_server import Hub, contents
from tests.inspection.pipelines import pipeline_of

STORED = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"


def test_the_precision_is_that_asked_for() -> None:
    narrow = load(STORED, "cpu", precision="bfloat16")
    assert {parameter.dtype for parameter in narrow.model.parameters()} == {torch.bfloat16}
    lines = ["One two three.", "Ten nine."]
    assert narrow(lines) == load(STORED, "cpu")(lines)
    assert narrow.score(["One."], ["Eins."])[0].log_prob == pytest.approx(
        load(STORED, "cpu").score(["One."], ["Eins."])[0].log_prob, abs=0.1
    )
    with pytest.raises(ConfigError, match="unknown precision 'float16'; did you mean 'bfloat16'"):
        load(STORED, "cpu", precision="float16")


def test_a_bundle_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such directory"):
        load(tmp_path / "nothing")


def test_a_bundle_is_loaded_as_the_pipeline_of_its_task(tmp_path: Path) -> None:
    """From its directory or its packed file, by a name or a path."""
    packed = pack(STORED, tmp_path / "x.crosshead.zip")
    expected = load(STORED, "cpu")(["One two three."])
    for path in (str(STORED), packed, str(packed)):
        found = load(path, "cpu")
        assert type(found) is TASKS["translation"].pipeline
        assert not found.model.training and found(["One two three."]) == expected


def test_a_bundle_of_another_kind_is_refused_with_its_own_command() -> None:
    assert type(load_as(Translator, STORED, "cpu")) is Translator
    assert type(load_as(Pipeline, STORED, "cpu")) is Translator  # type: ignore[type-abstract]
    with pytest.raises(BundleError) as caught:
        load_as(TextGenerator, STORED, "cpu")
    does = Translator.does
    assert (
        str(caught.value)
        == f"{STORED} is a model that {does}; translate with: crosshead translate {STORED} FILE"
    )


def test_several_bundles_are_an_ensemble_and_one_is_none(tmp_path: Path) -> None:
    other = pack(STORED, tmp_path / "other.crosshead.zip")
    lines = ["One two three.", "Ten nine."]
    expected = load(STORED, "cpu")(lines)
    alone = load([STORED], "cpu")
    assert type(alone) is Translator
    together = load([STORED, other], "cpu")
    assert type(together) is EnsembleTranslator
    assert alone(lines) == together(lines) == expected
    assert type(load_as(Translator, [STORED, other], "cpu")) is EnsembleTranslator


def test_bundles_that_are_no_ensemble_are_refused(tmp_path: Path) -> None:
    language = tmp_path / "language"
    save_bundle(language, pipeline_of("language").bundle, "A card.\n")
    with pytest.raises(BundleError, match="only models that translate text form an ensemble"):
        load([STORED, language], "cpu")
    with pytest.raises(BundleError, match="is given twice; name each bundle of an ensemble once"):
        load([STORED, str(STORED)], "cpu")
    with pytest.raises(BundleError, match="expected a bundle, or several bundles"):
        load([], "cpu")
    with pytest.raises(BundleError, match="nothing: no such directory"):
        load([STORED, tmp_path / "nothing"], "cpu")
    with pytest.raises(BundleError, match=f"^{STORED} is a model that translates; translate with"):
        load_as(TextGenerator, [STORED], "cpu")


SEALED = Path(__file__).parent.parent / "fixtures" / "bundle-format-1-sealed"


def test_a_path_stays_and_a_name_is_a_directory_of_the_cache(hub: Hub) -> None:
    assert local_bundle("runs/a") == Path("runs/a")
    hub.repository("anna/en-de", {**contents(SEALED), "run.py": b""})
    place = local_bundle("hf://anna/en-de")
    assert contents(place) == contents(SEALED) and hub_place(place)
    assert local_bundle(Path("hf://anna/en-de")) == local_bundle(place) == place


def test_a_model_on_a_hub_is_loaded_and_is_one_of_an_ensemble(hub: Hub, tmp_path: Path) -> None:
    hub.repository("anna/en-de", contents(SEALED))
    translate = crosshead.load("hf://anna/en-de")
    assert translate("One two three.") == "Eins zwei drei."
    together = crosshead.load(["hf://anna/en-de", SEALED])
    assert together("One two three.") == "Eins zwei drei."
    with pytest.raises(BundleError, match="hf://anna/en-de is given twice"):
        crosshead.load(["hf://anna/en-de", "hf://anna/en-de@main"])
    with pytest.raises(HubError, match="check the name"):
        crosshead.load("hf://anna")
