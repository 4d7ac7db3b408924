from pathlib import Path

import pytest

import crosshead
from crosshead.bundle.places import HubError, hub_place
from crosshead.errors import BundleError
from crosshead.tasks.places import local_bundle
from tests.hub_server import Hub, contents

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
