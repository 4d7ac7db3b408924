from pathlib import Path

import pytest

from crosshead.bundle.hub_names import (
    HubError,
    HubName,
    HubPlace,
    bundle_shown,
    checked_name,
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


@pytest.mark.parametrize(
    "text",
    [
        "hf://", "hf://anna", "hf://anna/b/c", "hf://anna/..", "hf://anna/a--b", "hf://-a/b",
        "hf://anna/b c", "hf://anna/b@", "hf://anna/b@../../x", "hf://anna/b@/x",
        f"hf://anna/{'x' * 100}",
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(HubError, match="expected"):
        hub_name(text)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://huggingface.co/anna/en-de", "hf://anna/en-de"),
        ("HTTP://huggingface.co/anna/en-de/", "hf://anna/en-de"),
        ("https://huggingface.co/anna/en-de/tree/v1", "hf://anna/en-de@v1"),
        ("https://huggingface.co/anna/en-de?x=1", "hf://anna/en-de"),
        ("https:/huggingface.co/anna/en-de", "hf://anna/en-de"),
        ("https://huggingface.co", "hf://ORG/NAME"),
        ("https://huggingface.co/a b/c", "hf://ORG/NAME"),
    ],
)
def test_the_address_of_a_page_is_refused_with_the_name(address: str, name: str) -> None:
    with pytest.raises(HubError) as error:
        hub_name(address)
    assert str(error.value) == f"{address}: is the address of a page; name the model as {name}"


def test_a_commit_is_fixed_and_a_branch_moves() -> None:
    assert HubName("a/b", COMMIT).is_fixed
    assert not any(each.is_fixed for each in (HubName("a/b"), HubName("a/b", COMMIT[:7])))


def test_a_place_in_the_cache_names_its_model_and_commit(tmp_path: Path) -> None:
    directory = tmp_path / "models--anna--en-de" / "snapshots" / COMMIT
    assert hub_place(directory) == HubPlace(name="anna/en-de", commit=COMMIT)
    assert bundle_shown(directory) == f"hf://anna/en-de@{COMMIT}"
    assert str(checked_name("anna/en-de", COMMIT)) == bundle_shown(directory)
    assert hub_place(tmp_path) is None and hub_place(directory.parent) is None
    assert bundle_shown("runs/a") == "runs/a"
