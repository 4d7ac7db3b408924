"""Uploads to a stand-in for a hub, by the real client."""

import shutil
import zipfile
from pathlib import Path

import pytest

from crosshead.addons.hub.push import files_to_push, push
from crosshead.bundle.config_file import read_settings
from crosshead.bundle.files import bundle_files, pack
from crosshead.bundle.hub import download_bundle
from crosshead.bundle.places import HubError, HubName
from crosshead.errors import BundleError
from tests.hub_server import READER, Hub, connect, contents

SEALED = Path(__file__).parent.parent.parent / "fixtures" / "bundle-format-1-sealed"
NAME = HubName("anna/en-de")
ALLOWED = {*bundle_files(SEALED)}


def on_the_hub(hub: Hub, branch: str = "main") -> dict[str, bytes]:
    found = hub.repositories["anna/en-de"].files(branch)
    return {name: data for name, data in found.items() if name != ".gitattributes"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The bundle in a run, with what must not leave this machine."""
    run = Path(shutil.copytree(SEALED, tmp_path / "run"))
    (run / "checkpoints").mkdir()
    for name in ("log.jsonl", "left-out.tsv", "recipe.toml"):
        (run / name).write_text("private")
    return run


def test_the_files_of_a_bundle_go_up_in_one_commit_and_come_down_the_same(
    hub: Hub, run: Path
) -> None:
    done = push(run, NAME)
    assert on_the_hub(hub) == contents(SEALED)
    repository = hub.repositories["anna/en-de"]
    assert len(repository.commits) == 2  # that of the new repository, and this one
    assert (done.commit, done.is_new) == (repository.branches["main"], True)
    assert hub.received and done.warnings == []  # files were sent, and nothing is said about it
    assert not repository.private
    place = download_bundle(NAME, ALLOWED)
    assert contents(place) == contents(SEALED) and place.name == done.commit


def test_nothing_new_is_no_commit(hub: Hub, run: Path) -> None:
    first = push(run, NAME)
    again = push(run, NAME)
    assert (again.commit, again.is_new) == (first.commit, False)
    assert len(hub.received) == len({*hub.received}) == 2


@pytest.mark.slow
def test_an_interrupted_upload_sends_only_what_is_missing(hub: Hub, run: Path) -> None:
    hub.refuses_commits = True
    with pytest.raises(HubError, match=r"HTTP 500.*transfers only the files that are missing"):
        push(run, NAME)
    hub.refuses_commits = False
    assert len(hub.received) == 2 and on_the_hub(hub) == {}
    push(run, NAME)
    assert len(hub.received) == 2 and on_the_hub(hub) == contents(SEALED)


def test_a_branch_is_made_and_main_stays(hub: Hub, run: Path) -> None:
    push(run, HubName("anna/en-de", "trial"))
    assert on_the_hub(hub) == {} and on_the_hub(hub, "trial") == contents(SEALED)


def test_a_private_repository_is_made_and_a_public_one_refused(hub: Hub, run: Path) -> None:
    push(run, NAME, private=True)
    assert hub.repositories["anna/en-de"].private
    push(run, NAME, private=True)
    hub.repositories["anna/en-de"].private = False
    commits = len(hub.repositories["anna/en-de"].commits)
    (run / "README.md").write_text("another card")
    with pytest.raises(HubError, match="exists and is public; leave out --private"):
        push(run, NAME, private=True)
    assert len(hub.repositories["anna/en-de"].commits) == commits


def test_the_card_goes_as_it_is(hub: Hub, run: Path) -> None:
    card = "---\nlicense: cc-by-4.0\n---\n# mine\n"
    (run / "README.md").write_text(card)
    push(run, NAME)
    assert on_the_hub(hub)["README.md"] == card.encode()


def test_what_the_hub_says_about_the_card_is_passed_on(hub: Hub, run: Path) -> None:
    hub.warning = "empty or missing yaml metadata"
    assert any(hub.warning in each for each in push(run, NAME).warnings)
    (run / "README.md").write_text('---\nlicense: "no such"\n---\n')
    with pytest.raises(HubError, match='"license" must be one of these') as error:
        push(run, NAME)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (None, "uploading needs a token; log in with `hf auth login`"),
        ("hf_unknown", "Invalid credentials"),
        (READER, "HTTP 403"),
    ],
)
def test_without_the_right_nothing_is_sent(
    hub: Hub, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str, why: str
) -> None:
    connect(hub, tmp_path / "hf", monkeypatch, token=token)
    with pytest.raises(HubError, match=why) as error:
        push(run, NAME)
    assert "\n" not in str(error.value)
    assert hub.received == [] and hub.repositories == {}


def test_the_space_of_another_is_refused(hub: Hub, run: Path) -> None:
    with pytest.raises(HubError, match=r"bob.*HTTP 403"):
        push(run, HubName("bob/en-de"))


def test_without_a_network_it_is_one_line(
    hub: Hub, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        HubError, match=r"cannot be reached.*transfers only the files that are missing"
    ):
        push(run, NAME)


def test_a_changed_file_and_no_bundle_are_refused_before_anything_is_sent(
    run: Path, tmp_path: Path
) -> None:
    tokenizer = run / "tokenizer.model"
    tokenizer.write_bytes(tokenizer.read_bytes()[:-1] + b"x")
    with pytest.raises(BundleError, match=r"tokenizer\.model: its SHA-256.*nothing was uploaded"):
        files_to_push(run)
    with pytest.raises(BundleError, match="not a bundle"):
        files_to_push(tmp_path)
    empty = tmp_path / "a.zip"
    empty.write_bytes(b"")
    with pytest.raises(BundleError, match="a file; expected the directory"):
        files_to_push(empty)


def test_a_packed_bundle_goes_up_as_its_files(hub: Hub, run: Path, tmp_path: Path) -> None:
    packed = pack(run, tmp_path / "a.crosshead.zip")
    done = push(packed, NAME)
    assert on_the_hub(hub) == contents(SEALED)
    assert not push(packed, NAME).is_new and not push(run, NAME).is_new
    assert done.commit == hub.repositories["anna/en-de"].branches["main"]


def test_of_a_packed_bundle_no_other_file_goes_up(run: Path, tmp_path: Path) -> None:
    packed = pack(run, tmp_path / "a.crosshead.zip")
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("secret.txt", "mine")
    with pytest.raises(BundleError, match=r"'secret\.txt' in it is no file of the bundle; nothing"):
        files_to_push(packed)


def test_only_files_of_the_bundle_are_planned(run: Path) -> None:
    sizes = files_to_push(run)
    assert sizes == {name: len(data) for name, data in contents(SEALED).items()}
    assert {*sizes} == {*read_settings(run)[1].files, "config.json"}
