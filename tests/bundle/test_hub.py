"""Downloads from a stand-in for a hub, by the real client."""

import errno
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

import crosshead
from crosshead.bundle.config_file import config_bytes, file_checksum
from crosshead.bundle.files import verify_bundle
from crosshead.bundle.hub import download_bundle, download_files, hub_errors, is_unreachable, quiet
from crosshead.bundle.places import HubError, HubName, hub_place
from crosshead.errors import DamagedBundle, UserError
from tests.hub_server import READER, Hub, connect, contents

FIXTURES = Path(__file__).parent.parent / "fixtures"
OLDER, SEALED = FIXTURES / "bundle-format-1", FIXTURES / "bundle-format-1-sealed"
ALLOWED = {
    "config.json", "model.safetensors", "README.md", "tokenizer.json", "tokenizer.model",
}  # fmt: skip
NAME = HubName("anna/en-de")
ENDS = "0" * 40


def download(name: HubName = NAME) -> Path:
    return download_bundle(name, ALLOWED)


@pytest.fixture
def bundle(hub: Hub) -> Hub:
    """The hub with a bundle, beside which files lie that belong to no bundle."""
    others = {
        "pytorch_model.bin": b"\x80\x04N.",
        "run.py": b"raise SystemExit",
        ".gitattributes": b"",
    }
    hub.repository(NAME.repository, {**contents(SEALED), **others})
    return hub


def of_files(hub: Hub, kind: str = "GET") -> list[str]:
    """The files of which the content was sent."""
    return [each for each in hub.asked if each.startswith(kind) and "/api/" not in each]


def test_a_bundle_is_downloaded_checked_and_used(bundle: Hub) -> None:
    place = download()
    assert contents(place) == contents(SEALED)
    assert all(differs is None for _, differs in verify_bundle(place))
    assert crosshead.load(place)("One two three.") == "Eins zwei drei."
    found = hub_place(place)
    assert found is not None and found.name == "anna/en-de"
    assert found.commit == bundle.repositories["anna/en-de"].branches["main"]


def test_only_files_of_a_bundle_are_asked_for(bundle: Hub) -> None:
    download()
    assert not [each for each in bundle.asked if "pytorch" in each or "run.py" in each]


def test_a_bundle_in_the_cache_is_not_sent_again(bundle: Hub) -> None:
    first = download()
    del bundle.asked[:]
    assert download() == first
    assert of_files(bundle) == []
    assert download(HubName("anna/en-de", first.name)) == first
    assert of_files(bundle) == []


def test_revisions_are_kept_apart(bundle: Hub) -> None:
    repository = bundle.repositories["anna/en-de"]
    card = b"a new card"
    first, second = repository.branches["main"], repository.add("main", {"README.md": card})
    assert download().name == second
    assert download(HubName("anna/en-de", first)).name == first
    assert (download() / "README.md").read_bytes() == card


def test_an_older_bundle_without_checksums_is_downloaded(hub: Hub) -> None:
    hub.repository(NAME.repository, {**contents(OLDER), "run.py": b""})
    assert contents(download()) == contents(OLDER)


def test_a_card_may_be_missing(hub: Hub) -> None:
    files = contents(SEALED)
    del files["README.md"]
    hub.repository(NAME.repository, files)
    assert crosshead.load(download())("One two three.") == "Eins zwei drei."


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.model", "config.json"])
def test_a_damaged_file_is_refused_when_it_is_loaded(bundle: Hub, file: str) -> None:
    whole = contents(SEALED)[file]
    damaged = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
    bundle.repositories["anna/en-de"].add("main", {file: damaged})
    with pytest.raises(DamagedBundle, match=file) as error:
        crosshead.load(f"{NAME}")
    assert "\n" not in str(error.value)


def test_a_file_that_belongs_to_no_bundle_is_refused_by_name(hub: Hub) -> None:
    files = contents(SEALED)
    settings = {
        key: value
        for key, value in json.loads(files["config.json"]).items()
        if key not in ("files", "config_sha256")
    }
    del files["config.json"]
    files["run.py"] = b"import os"
    sums = {name: file_checksum(data) for name, data in files.items()}
    hub.repository(NAME.repository, {**files, "config.json": config_bytes(settings, sums)})
    with pytest.raises(DamagedBundle, match=r"'run\.py' is not a file of a bundle"):
        crosshead.load(f"{NAME}")
    assert not [each for each in hub.asked if "run.py" in each]


def test_a_missing_file_is_named(bundle: Hub) -> None:
    repository = bundle.repositories["anna/en-de"]
    del repository.commits[repository.branches["main"]]["tokenizer.model"]
    with pytest.raises(HubError, match=r"tokenizer\.model says .*Entry not found"):
        download()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (HubName("anna/b/c"), "check the name"),
        (HubName("anna/.."), "check the name"),
        (HubName(""), "check the name"),
        (HubName("anna/nothing"), "Repository not found.*; check the name"),
        (HubName("anna/en-de", "v9"), "Invalid rev id: v9"),
        (HubName("anna/en-de", ENDS), f"Invalid rev id: {ENDS}"),
        (HubName("anna/other"), "not a bundle: the repository has no config.json"),
    ],
)
def test_what_the_hub_does_not_have_is_one_line(bundle: Hub, name: HubName, why: str) -> None:
    bundle.repository("anna/other", {"README.md": b"hello"})
    with pytest.raises(HubError, match=why) as error:
        download(name)
    assert str(error.value).startswith(f"{name}: ") and "\n" not in str(error.value)


def test_a_private_model_needs_a_token(
    bundle: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle.repositories["anna/en-de"].private = True
    connect(bundle, tmp_path / "hf", monkeypatch, token=None)
    with pytest.raises(HubError, match=r"HTTP 401.*hf auth login"):
        download()
    connect(bundle, tmp_path / "hf", monkeypatch, token="hf_unknown")
    with pytest.raises(HubError, match="Invalid credentials"):
        download()
    connect(bundle, tmp_path / "hf", monkeypatch, token=READER)
    assert contents(download()) == contents(SEALED)


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_offline_the_earlier_download_is_used_and_another_is_refused(
    bundle: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = download()
    del bundle.asked[:]
    offline(monkeypatch)
    assert download() == place
    with pytest.raises(HubError, match=r"is not in the cache .*unset the `HF_HUB_OFFLINE`"):
        download(HubName("anna/other"))
    with pytest.raises(HubError, match="is not in the cache"):
        download(HubName("anna/en-de", "v9"))
    assert bundle.asked == []


def test_without_a_network_the_earlier_download_is_used_with_a_note(
    bundle: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = download()
    bundle.down = True
    with caplog.at_level("INFO", "crosshead"):
        assert download() == place
    assert "HTTP 503" in caplog.text and "using the earlier download" in caplog.text
    nowhere = "http://127.0.0.1:9"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", nowhere)
    assert download() == place
    with pytest.raises(HubError, match=f"{nowhere} cannot be reached .*connect to the network"):
        download(HubName("anna/other"))


def test_a_part_of_a_bundle_is_no_earlier_download(
    bundle: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = download()
    (place / "model.safetensors").unlink()
    offline(monkeypatch)
    with pytest.raises(HubError, match=r"is not in the cache .*unset the `HF_HUB_OFFLINE`"):
        download()


def test_a_broken_connection_is_taken_up_at_once(
    bundle: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)
    bundle.break_after = 5000
    assert contents(download()) == contents(SEALED)
    assert any(each.endswith("bytes=5000-") for each in bundle.asked)


def test_files_of_another_toolkit_are_chosen_by_name(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repository("anna/opus", {"config.json": b"{}", "run.py": b"", "source.spm": b"1"})

    def choose(names: Sequence[str]) -> list[str]:
        return [name for name in names if name != "run.py"]

    place = download_files(HubName("anna/opus"), choose)
    assert contents(place) == {"config.json": b"{}", "source.spm": b"1"}
    assert not [each for each in hub.asked if "run.py" in each]
    offline(monkeypatch)
    assert download_files(HubName("anna/opus"), choose) == place
    with pytest.raises(HubError, match="is not in the cache"):
        download_files(HubName("anna/lost"), choose)


def test_without_the_client_the_message_names_the_extra(
    bundle: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"pip install 'crosshead\[hub\]'"):
        download()


TAGGED = HubName("anna/en-de", "v1")


def test_a_refused_connection_is_one_line_with_advice(hub: Hub) -> None:
    with (
        pytest.raises(
            HubError, match=r"^hf://anna/en-de@v1: .*cannot be reached.*; run the command again"
        ) as error,
        hub_errors(TAGGED),
    ):
        raise ConnectionResetError("reset\nby peer")
    assert "\n" not in str(error.value)


def test_a_full_disk_stays_what_it_is(hub: Hub) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/cache/x")
    assert not is_unreachable(full)
    with pytest.raises(OSError, match="No space left"), hub_errors(TAGGED):
        raise full


def test_a_mistake_of_the_program_stays_what_it_is(hub: Hub) -> None:
    with pytest.raises(TypeError), hub_errors(TAGGED):
        raise TypeError
    assert not is_unreachable(TypeError())


def test_messages_of_the_client_are_kept_off_the_screen_and_its_warnings_returned() -> None:
    utils = pytest.importorskip("huggingface_hub.utils")
    logger = utils.logging.get_logger("huggingface_hub.test")
    before = utils.logging.get_verbosity(), utils.are_progress_bars_disabled()
    with quiet() as said:
        warnings.warn("two\nlines", UserWarning, stacklevel=1)
        assert utils.are_progress_bars_disabled() and not logger.isEnabledFor(40)
    assert said == ["two lines"]
    assert (utils.logging.get_verbosity(), utils.are_progress_bars_disabled()) == before
