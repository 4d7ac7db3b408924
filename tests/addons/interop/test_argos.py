"""A package for Argos Translate has the files that it reads, and translates without a network."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import sentencepiece
import torch

from crosshead.addons.interop.argos import (
    ARGOS,
    DIGIT,
    DOT,
    LOWER,
    PAD,
    SEARCH,
    UPPER,
    LoadedPackage,
    kinds,
    sentence_splitter,
)
from crosshead.addons.interop.ctranslate2_model import library
from crosshead.addons.interop.export import export
from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.addons.interop.imports.writing import import_model
from crosshead.addons.interop.verify import own_log_probs
from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import BundleError, UserError
from crosshead.tasks.registry import load_bundle
from crosshead.text.sentences import split_sentences
from tests.addons.interop.cells import cells_of, check_cell
from tests.addons.interop.small_bundles import TEXT, shown, small_bundle


def needs(*modules: str) -> pytest.MarkDecorator:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


@needs("onnx")
@pytest.mark.parametrize("name", cells_of(ARGOS))
def test_an_option_is_exported_or_refused(name: str, tmp_path: Path) -> None:
    check_cell(ARGOS, name, tmp_path)


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


PROGRAM = """
import json, socket, sys
def refuse(*arguments, **named):
    raise OSError("a package must translate without a network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
import argostranslate.package, argostranslate.translate
package, source, target = sys.argv[1:]
argostranslate.package.install_from_path(package)
translation = argostranslate.translate.get_translation_from_codes(source, target)
print(json.dumps([translation.translate(line) for line in json.load(sys.stdin)]))
"""


@needs("onnx", "argostranslate", "minisbd")
def test_argos_installs_a_package_and_translates_without_a_network(tmp_path: Path) -> None:
    """It splits a line into sentences, whose tokens are decoded together."""
    import minisbd

    bundle, out = small_bundle(beam=4), tmp_path / "en-de.argosmodel"
    done = export(bundle, "argos", out, sources=TEXT["source"])
    assert done.comparison is not None and done.comparison.compared
    packages = tmp_path / "packages"
    packages.mkdir()
    environment = {
        "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "ARGOS_PACKAGES_DIR": str(packages), "ARGOS_CHUNK_TYPE": "DEFAULT",
        "ARGOS_COMPUTE_TYPE": "default", "ARGOS_DEVICE_TYPE": "cpu",
    }  # fmt: skip
    lines = [*TEXT["source"][:3], "Mr. Smith runs home."]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(out), "en", "de"], input=json.dumps(lines),
        env={**os.environ, **environment}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    with zipfile.ZipFile(out) as archive:
        archive.extractall(tmp_path / "unpacked")
    [folder] = (tmp_path / "unpacked").iterdir()
    splitter = minisbd.SBDetect(str(folder / "minisbd" / "en.onnx"), use_gpu=False)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    translator = library().Translator(str(folder / "model"), device="cpu")
    for line, text in zip(lines, found, strict=True):
        sentences = [pieces.encode(each, out_type=str) for each in splitter.sentences(line)]
        outputs = translator.translate_batch(
            sentences,
            beam_size=SEARCH.beam,
            length_penalty=SEARCH.length_penalty,
            replace_unknowns=True,
        )
        tokens = [piece for each in outputs for piece in each.hypotheses[0]]
        assert shown(text) == shown(pieces.decode(tokens).replace("_", " "))


def test_a_package_needs_its_suffix(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected a name that ends in \.argosmodel"):
        export(small_bundle(), "argos", tmp_path / "en-de", verify=False)


TEXTS = [
    "A dog runs. Two men sit! Do they? Yes.",
    'He said "Stop!" Then he left.',
    "It costs 3.14 dollars. or so they say.",
    "J. S. Bach was born in 1685. He died on 28. July.",
    "今日は。元気ですか？「はい。」そうです。",
    "Wait... what? No",
    "“Is it?” she asked. (Yes.) Good",
    "no mark at all",
]


def test_characters_have_kinds() -> None:
    found = kinds()
    assert (found["."], found["a"], found["Ä"], found["7"]) == (DOT, LOWER, UPPER, DIGIT)
    assert "中" not in found and PAD not in found.values()


@pytest.mark.parametrize("text", TEXTS)
def test_sentences_are_those_of_crosshead(text: str, tmp_path: Path) -> None:
    """MiniSBD itself runs the model, as in Argos Translate."""
    minisbd = pytest.importorskip("minisbd")
    (tmp_path / "en.onnx").write_bytes(sentence_splitter("en"))
    found = minisbd.SBDetect(str(tmp_path / "en.onnx"), use_gpu=False).sentences(text)
    assert [each.strip() for each in found] == [each.strip() for each in split_sentences(text)]


def test_the_model_ends_sentences_as_crosshead() -> None:
    """The same without MiniSBD: the class 2 of a character ends a sentence."""
    session = onnxruntime.InferenceSession(sentence_splitter("en"))
    vocabulary = json.loads(session.get_modelmeta().custom_metadata_map["vocab"])["_unit2id"]
    text = TEXTS[0]
    units = np.array([[vocabulary.get(each, 1) for each in text] + [PAD]])
    features = np.zeros((1, len(text) + 1, 1), np.float32)
    [classes] = session.run(None, {"units": units, "features": features})
    ends = np.flatnonzero(classes[0, : len(text)].argmax(-1) == 2)
    assert [text[end] for end in ends] == [".", "!", "?", "."] and len(TEXTS[0]) - 1 in ends


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
    with pytest.raises(ForeignModelError, match="is int8") as error:
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
