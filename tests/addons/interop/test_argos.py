"""A package for Argos Translate has the files that it reads, and translates without a network."""

import dataclasses
import importlib.util
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from crosshead.addons.interop import argos
from crosshead.addons.interop.argos import ARGOS, LoadedPackage
from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.ctranslate2 import translator_of
from crosshead.addons.interop.export import export
from crosshead.addons.interop.verify import own_log_probs
from crosshead.errors import UserError
from tests.addons.interop.cells import cells_of, check_cell
from tests.addons.interop.small_bundles import TEXT, small_bundle


def needs(*modules: str) -> pytest.MarkDecorator:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


class WithoutArgos(LoadedPackage):
    """A package whose model CTranslate2 runs on whole lines, with any search."""

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        with argos._opened(self._package) as parts:
            found = translator_of(parts.model).translate_batch(
                [parts.pieces.encode(line.strip(), out_type=str) for line in lines],
                beam_size=search.beam,
                length_penalty=search.length_penalty,
                max_decoding_length=search.max_length,
                min_decoding_length=0,
            )
            return [parts.pieces.decode(each.hypotheses[0]) for each in found]


@needs("onnx")
@pytest.mark.parametrize("name", cells_of(ARGOS))
def test_an_option_is_exported_or_refused(name: str, tmp_path: Path) -> None:
    check_cell(ARGOS, name, tmp_path, WithoutArgos)


@needs("onnx")
def test_a_package_has_one_folder_with_all_that_argos_reads(tmp_path: Path) -> None:
    bundle = small_bundle({"tie": "none"}, {"joint": False})
    ARGOS.write(bundle, "float32", tmp_path)
    [package] = tmp_path.iterdir()
    assert package.name == "translate-en_de.argosmodel"
    with zipfile.ZipFile(package) as archive:
        names = set(archive.namelist())
        folder = "translate-en_de-1_0/"
        metadata = json.loads(archive.read(f"{folder}metadata.json"))
        pieces = archive.read(f"{folder}sentencepiece.model")
    own = {"metadata.json", "README.md", "sentencepiece.model", "minisbd/en.onnx"}
    model = {f"model/{name}" for name in (
        "model.bin", "config.json", "source_vocabulary.json", "target_vocabulary.json",
    )}  # fmt: skip
    assert names == {f"{folder}{name}" for name in own | model}
    assert not any("stanza" in name for name in names)  # Argos would then run Stanza
    assert pieces == bundle.source_tokenizer.model  # type: ignore[attr-defined]
    assert metadata["from_code"] == "en" and metadata["to_name"] == "German"
    assert metadata["argos_version"] == "1.11.0"  # the first with MiniSBD


@needs("onnx")
@pytest.mark.parametrize("licence", ["cc-by-4.0", None])
def test_a_package_says_its_licence_if_it_is_known(licence: str | None, tmp_path: Path) -> None:
    bundle = small_bundle()
    config = bundle.config.model_copy(update={"license": licence})
    ARGOS.write(dataclasses.replace(bundle, config=config), "float32", tmp_path)
    with zipfile.ZipFile(tmp_path / "translate-en_de.argosmodel") as archive:
        metadata = json.loads(archive.read("translate-en_de-1_0/metadata.json"))
        said = archive.read("translate-en_de-1_0/README.md").decode()
    assert metadata.get("license") == licence and ("license" in metadata) == bool(licence)
    assert said.startswith("# English to German\n\nA model that translates ")
    assert ("Licence: `cc-by-4.0`." in said) == bool(licence) and "Trained" not in said


@needs("onnx", "minisbd")
def test_the_sentences_of_the_packaged_splitter_are_expected(tmp_path: Path) -> None:
    """It splits after `Mr.`, which crosshead does not, so CTranslate2 translates two sentences."""
    bundle = small_bundle(ends=False)
    ARGOS.write(bundle, "float32", tmp_path)
    lines = ["Mr. Smith runs home.", "Mr.", "Smith runs home."]
    whole, first, second = argos.expected(bundle, tmp_path, lines)
    assert whole.replace(" ", "") == f"{first}{second}".replace(" ", "")


@needs("onnx")
@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_the_model_in_a_package_computes_the_same(kind: str, tmp_path: Path) -> None:
    bundle = small_bundle({}, {"kind": kind})
    ARGOS.write(bundle, "float32", tmp_path)
    ids = bundle.source_tokenizer.encode_lines(TEXT["source"][:3])
    examples = [(source, source[::-1]) for source in ids]
    found = LoadedPackage(bundle, tmp_path).log_probs(examples)
    for theirs, ours in zip(found, own_log_probs(bundle, examples), strict=True):
        assert theirs == pytest.approx(ours, abs=1e-5)


@pytest.mark.slow
@needs("onnx")
def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        ARGOS.write(small_bundle(), "int8", tmp_path / name)
    first, second = (next((tmp_path / name).iterdir()) for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


@needs("onnx", "argostranslate")
def test_argos_installs_a_package_and_translates_without_a_network(tmp_path: Path) -> None:
    bundle = small_bundle(beam=4)
    out = tmp_path / "en-de.argosmodel"
    done = export(bundle, "argos", out, sources=TEXT["source"], references=TEXT["target"])
    assert done.comparison is not None and done.comparison.compared
    names = {each.name for each in tmp_path.iterdir()}
    assert names == {"en-de.argosmodel", "en-de.argosmodel.verification.json"}
    assert zipfile.is_zipfile(out)


@needs("onnx", "argostranslate")
def test_a_package_that_argos_cannot_use_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.argosmodel").write_text("no zip")
    with pytest.raises(UserError, match=r"^Argos Translate cannot use the package: .*zip archive"):
        LoadedPackage(small_bundle(), tmp_path).translate(["a"], ARGOS.fixed_search)  # type: ignore[arg-type]


def test_a_package_needs_its_suffix(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected a name that ends in \.argosmodel"):
        export(small_bundle(), "argos", tmp_path / "en-de", verify=False)
