import os
import pickle
from pathlib import Path

import pytest

from crosshead.bundle.places import (
    HubError,
    HubName,
    HubPlace,
    bundle_shown,
    check_place,
    hub_name,
    hub_place,
    is_run,
)
from crosshead.errors import BundleError
from crosshead.tasks.registry import load_bundle

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


def test_a_run_without_a_bundle_is_named_with_how_to_go_on(tmp_path: Path) -> None:
    run = tmp_path / "my run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "recipe.toml").touch()
    with pytest.raises(BundleError, match="no bundle yet") as caught:
        load_bundle(run)
    assert str(caught.value).endswith(f"crosshead train --resume --out '{run}'")


def test_a_file_is_not_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(pickle.dumps([1]))
    with pytest.raises(BundleError, match=r"model\.pt: a file; expected the directory"):
        load_bundle(tmp_path / "model.pt")


def test_what_is_neither_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(BundleError, match=rf"{name}: a pipe or a device, expected the direc"):
            check_place(tmp_path / name)


def test_a_directory_without_checkpoints_is_no_run(tmp_path: Path) -> None:
    assert not is_run(tmp_path)
