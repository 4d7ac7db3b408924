import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from crosshead.bundle.config_file import Manifest, config_bytes, file_checksum, separate_checksums
from crosshead.bundle.files import verify_bundle
from crosshead.bundle.io import save_bundle
from crosshead.errors import DamagedBundle
from crosshead.tasks.registry import load_bundle, outline_bundle
from tests.bundle.stored import SEALED, STORED, settings


@pytest.mark.parametrize("task", ["forecast", [], {}, 3])
def test_a_task_that_is_not_known_is_damage(task: object, tmp_path: Path) -> None:
    place = tmp_path / "bundle"
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "bundle-format-1", place)
    values = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**values, "task": task}))
    with pytest.raises(DamagedBundle, match="task: expected 'translation'"):
        load_bundle(place)


@pytest.mark.parametrize("key", ["architecture", "score", "positions"])
def test_an_unregistered_name_asks_for_its_registration(key: str, tmp_path: Path) -> None:
    place = tmp_path / "bundle"
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "bundle-format-1", place)
    values = json.loads((place / "config.json").read_text())
    values["model"][key] = "own"
    (place / "config.json").write_text(json.dumps(values))
    with pytest.raises(DamagedBundle, match="must register it before"):
        load_bundle(place)


@pytest.mark.parametrize("task", [["translation"], {}, None, 3])
def test_a_task_that_is_no_name_is_damage(task: object, stored: Path) -> None:
    values = json.loads((stored / "config.json").read_text())
    values.pop("config_sha256", None)
    (stored / "config.json").write_text(json.dumps(values | {"task": task}))
    with pytest.raises(DamagedBundle, match=r"config.json: task: expected 'translation'"):
        load_bundle(stored)


def scale_the_weights(directory: Path) -> None:
    """Other weights of the same shapes, in a file that is whole, with a header of its own."""
    bundle = load_bundle(directory)
    with torch.no_grad():
        for parameter in bundle.model.parameters():
            parameter *= 1.5
    save_bundle(directory, bundle, (directory / "README.md").read_text())


LOADED = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer.model"]


@pytest.mark.parametrize("name", LOADED)
def test_a_changed_file_is_named_by_its_checksum(name: str, sealed: Path) -> None:
    whole = (sealed / name).read_bytes()
    (sealed / name).write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    with pytest.raises(DamagedBundle, match=rf"^{sealed / name}: [^\n]*(SHA-256|checksum|JSON)"):
        load_bundle(sealed)


@pytest.mark.parametrize("name", LOADED)
def test_a_file_of_another_version_of_the_bundle_is_named(name: str, sealed: Path) -> None:
    other = Path(shutil.copytree(sealed, sealed.with_name("other")))
    scale_the_weights(other)
    (other / "tokenizer.json").write_text((other / "tokenizer.json").read_text() + " ")
    (other / "tokenizer.model").write_bytes(b"another")
    shutil.copyfile(other / name, sealed / name)
    for read in (load_bundle, outline_bundle):
        with pytest.raises(DamagedBundle, match=r"is not the one in config\.json: ") as caught:
            read(sealed)
        expected = "model.safetensors" if name == "config.json" else name
        assert str(caught.value).startswith(f"{sealed / expected}: ")


def test_an_edited_card_is_no_damage(sealed: Path) -> None:
    (sealed / "README.md").write_text("# Mine\n")
    assert load_bundle(sealed).config == load_bundle(SEALED).config
    found = dict(verify_bundle(sealed))
    assert "is not the one in config.json" in (found.pop("README.md") or "")
    assert found == dict.fromkeys(LOADED)


def test_who_edits_the_configuration_is_told_what_to_do(sealed: Path) -> None:
    path = sealed / "config.json"
    values = json.loads(path.read_text())
    values["decode"]["beam"] = 2
    path.write_text(json.dumps(values))
    with pytest.raises(DamagedBundle, match="remove the key 'config_sha256'"):
        load_bundle(sealed)
    del values["config_sha256"]
    path.write_text(json.dumps(values))
    assert load_bundle(sealed).config.decode.beam == 2
    assert dict(verify_bundle(sealed))["config.json"] == "contains no checksum of itself"


def test_notes_are_logged_of_what_cannot_be_checked(
    sealed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "crosshead")
    load_bundle(sealed)
    outline_bundle(sealed)
    assert caplog.messages == []
    load_bundle(STORED)
    assert [f"{STORED}: an old bundle" in line for line in caplog.messages] == [True]


@pytest.mark.parametrize(
    "files",
    [
        [], {"model.safetensors": 1}, {"model.safetensors": {"sha256": "x", "bytes": 1}},
        {"../../outside": {"sha256": "0" * 64, "bytes": 1}},
        {"config.json": {"sha256": "0" * 64, "bytes": 1}},
        {"tokenizer.json": {"sha256": "0" * 64, "bytes": 158}},
        {"README.md": {"sha256": "0" * 64, "bytes": 77}},
        {"model.safetensors": {"sha256": "0" * 64, "bytes": 2**70}},
    ],
)  # fmt: skip
def test_checksums_that_are_none_are_damage(files: object, stored: Path) -> None:
    settings(files=files)(stored)
    for read in (load_bundle, outline_bundle):
        with pytest.raises(DamagedBundle):
            read(stored)


CONTENTS = {"model.safetensors": b"weights", "tokenizer.json": b"{}"}
SUMS = {name: file_checksum(data) for name, data in CONTENTS.items()}


def opened(
    directory: Path, data: bytes, remedy: str | None = None
) -> tuple[dict[str, Any], Manifest]:
    return separate_checksums(directory, json.loads(data), data, remedy)


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """The checksums of two files, which stand beside it unchanged."""
    for name, data in CONTENTS.items():
        (tmp_path / name).write_bytes(data)
    return opened(tmp_path, config_bytes({"format": 1}, SUMS), "write it again with --resume")[1]


def test_settings_and_checksums_are_separated_again(tmp_path: Path) -> None:
    settings = {"format": 1, "text": "ü", "nested": {"a": [1, 2.5, None]}}
    found, manifest = opened(tmp_path, config_bytes(settings, SUMS))
    assert found == settings
    assert manifest == Manifest(tmp_path, SUMS, of_config=True)
    assert config_bytes(found, manifest.files) == config_bytes(settings, SUMS)


def test_a_file_without_checksums_is_taken_as_it_is(tmp_path: Path) -> None:
    found, manifest = opened(tmp_path, b'{"format": 1}')
    assert found == {"format": 1} and not manifest.files and not manifest.of_config
    manifest.check("absent")
    manifest.check_sizes(["absent"])
    manifest.compare("absent", "0" * 64)


def test_every_changed_byte_of_the_configuration_is_noticed(tmp_path: Path) -> None:
    data = config_bytes({"format": 1, "beam": 4}, SUMS)
    for changed in (data.replace(b"4", b"5", 1), data.replace(b"\n", b"\n ", 1), data + b"\n"):
        assert changed != data
        with pytest.raises(DamagedBundle, match="its checksum differs") as caught:
            opened(tmp_path, changed, "resume the run")
        assert str(caught.value).startswith(f"{tmp_path / 'config.json'}: ")
        assert str(caught.value).endswith("remove the key 'config_sha256'; resume the run")


def test_files_that_are_whole_are_accepted(manifest: Manifest) -> None:
    manifest.check_sizes(CONTENTS)
    for name in CONTENTS:
        manifest.check(name)


def test_a_changed_size_is_found_without_reading_and_a_changed_byte_by_reading(
    manifest: Manifest,
) -> None:
    path = manifest.directory / "tokenizer.json"
    path.write_bytes(b"[]")
    manifest.check_sizes(CONTENTS)
    with pytest.raises(DamagedBundle, match=rf"^{path}: its SHA-256 is not the one") as caught:
        manifest.check(path.name)
    assert "take a fresh copy of the bundle, or train it again" in str(caught.value)
    path.write_bytes(b"[ ]")
    with pytest.raises(DamagedBundle, match=rf"^{path}: its size is not the one in config\.json"):
        manifest.check_sizes(CONTENTS)
    with pytest.raises(DamagedBundle, match=r"config\.json: files: README\.md is missing"):
        manifest.compare("README.md", "0" * 64)


def test_weights_that_training_can_write_again_come_with_that_advice(manifest: Manifest) -> None:
    (manifest.directory / "model.safetensors").write_bytes(b"another")
    with pytest.raises(DamagedBundle, match="write it again with --resume"):
        manifest.check("model.safetensors")
