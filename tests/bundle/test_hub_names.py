from pathlib import Path

import pytest

from crosshead.bundle.hub_names import (
    HubError,
    HubName,
    HubPlace,
    bundle_shown,
    hub_name,
    hub_place,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_names_are_read_from_text_and_from_paths() -> None:
    assert hub_name("hf://anna/en-de") == HubName("anna/en-de")
    assert hub_name(Path("hf://anna/en-de")) == HubName("anna/en-de")  # pathlib drops a slash
    assert hub_name("hf://anna/en-de@refs/pr/1") == HubName("anna/en-de", "refs/pr/1")
    assert hub_name("HF://anna/en-de@v1") == HubName("anna/en-de", "v1")
    assert str(hub_name("hf://anna/x.1_b@v1")) == "hf://anna/x.1_b@v1"


@pytest.mark.parametrize("path", ["runs/en-de", "/tmp/hf", "hf", "C:/x", "./hf:/x"])
def test_a_path_is_no_name(path: str) -> None:
    assert hub_name(path) is None


@pytest.mark.parametrize("address", ["https://huggingface.co/anna/en-de", "HTTP:/x"])
def test_the_address_of_a_page_is_refused(address: str) -> None:
    with pytest.raises(HubError, match="name the model as hf://ORG/NAME"):
        hub_name(address)


def test_a_place_in_the_cache_names_its_model_and_commit(tmp_path: Path) -> None:
    directory = tmp_path / "models--anna--en-de" / "snapshots" / COMMIT
    assert hub_place(directory) == HubPlace(name="anna/en-de", commit=COMMIT)
    assert bundle_shown(directory) == f"hf://anna/en-de@{COMMIT}"
    assert str(HubName("anna/en-de", COMMIT)) == bundle_shown(directory)
    assert hub_place(tmp_path) is None and hub_place(directory.parent) is None
    assert bundle_shown("runs/a") == "runs/a"
