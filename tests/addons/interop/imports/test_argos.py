"""Packages of Argos Translate come back as the model that they were made from."""

import json
import zipfile
from pathlib import Path

import pytest
import torch

from crosshead.addons.interop.argos import ARGOS
from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.addons.interop.imports.writing import import_model
from crosshead.addons.interop.verify import own_log_probs
from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import BundleError
from crosshead.tasks.registry import load_bundle
from tests.addons.interop.small_bundles import small_bundle

EXAMPLES = [([9, 30, 11], [8, 7, 60, 5]), ([15], [40]), ([30, 31, 32, 33, 34], [])]


def package(bundle: TextBundle, directory: Path, kind: str = "float32") -> Path:
    ARGOS.write(bundle, kind, directory)
    [found] = directory.iterdir()
    return found


def test_a_package_comes_back_with_its_languages_and_argos_search(tmp_path: Path) -> None:
    bundle = small_bundle({"norm": "pre"}, seed=2)
    place = package(bundle, tmp_path)
    found = import_model(place)
    again = found.bundle
    config = again.config
    assert (config.source_language, config.target_language) == ("en", "de")
    assert config.origin is not None and config.origin.kind == "argos"
    assert config.origin.name == place.name and found.notes == []
    assert (config.decode.beam, config.decode.length_penalty) == (4, 0.2)
    assert config.longest_source + 1 + config.decode.max_extra == 256
    assert again.source_tokenizer.encode("a dog") == bundle.source_tokenizer.encode("a dog")
    for left, right in zip(
        own_log_probs(bundle, EXAMPLES), own_log_probs(again, EXAMPLES), strict=True
    ):
        torch.testing.assert_close(torch.tensor(left), torch.tensor(right), rtol=0, atol=1e-5)


def test_a_package_without_a_tokenizer_of_the_target_says_so(tmp_path: Path) -> None:
    bundle = small_bundle({"tie": "two-way"}, {"joint": False})
    [note] = import_model(package(bundle, tmp_path)).notes
    assert "has no tokenizer of the target" in note


def test_what_cannot_be_imported_is_named(tmp_path: Path) -> None:
    place = package(small_bundle(), tmp_path, "int8")
    with pytest.raises(ForeignModelError, match="are quantized to int8") as error:
        import_model(place)
    assert str(error.value).startswith(f"{place}/model/model.bin: ")
    (tmp_path / "old").mkdir()
    with zipfile.ZipFile(place) as archive:
        archive.extractall(tmp_path / "old")
    [folder] = (tmp_path / "old").iterdir()
    (folder / "sentencepiece.model").unlink()
    with pytest.raises(ForeignModelError, match="only packages with SentencePiece"):
        import_model(folder)
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["from_code"] == "en"


def test_a_package_in_the_place_of_a_bundle_is_named(tmp_path: Path) -> None:
    place = package(small_bundle(), tmp_path)
    with pytest.raises(BundleError, match=r"a package of Argos Translate, not a bundle .* import"):
        load_bundle(place)
