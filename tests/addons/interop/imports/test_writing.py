"""An import writes a whole bundle, or nothing."""

import dataclasses
import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import crosshead
from crosshead.addons.interop.base import Imported
from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.addons.interop.imports.writing import (
    Languages,
    foreign_files,
    import_model,
    import_to,
    licence_of,
    name_languages,
    readme_languages,
    recognised,
    with_stated_facts,
)
from crosshead.errors import ConfigError, UserError
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.translation.translator import Translator
from tests.addons.interop.imports.gpt2_directories import change, write_gpt2
from tests.addons.interop.small_bundles import small_bundle
from tests.hub_server import Hub, contents


def test_the_bundle_translates_as_the_imported_model(shared: Path, tmp_path: Path) -> None:
    imported = import_to(shared, tmp_path / "out", command="crosshead import /secret/x --out out")
    lines = ["A dog runs.", "Two men sit on a bench."]
    assert crosshead.load(tmp_path / "out", device="cpu")(lines) == Translator(imported.bundle)(
        lines
    )
    card = (tmp_path / "out" / "README.md").read_text()
    assert "imported, not trained" in card and "/secret" not in card
    assert imported.bundle.config.origin is not None
    assert imported.bundle.config.origin.sha256 in card


def test_a_model_on_a_hub_is_imported_and_its_place_named(
    shared: Path, tmp_path: Path, hub: Hub
) -> None:
    files = contents(shared)
    repository = hub.repository("anna/opus", {**files, "run.py": b"", "x/config.json": b"{}"})
    imported = import_to("hf://anna/opus", tmp_path / "out")
    origin, commit = imported.bundle.config.origin, repository.branches["main"]
    assert origin is not None and origin.name == "anna/opus" and origin.hub is not None
    assert str(origin.hub) == f"hf://anna/opus@{commit}"
    assert str(origin.hub) in (tmp_path / "out" / "README.md").read_text()
    assert not [each for each in hub.asked if "run.py" in each or "/x/" in each]
    theirs = import_to(shared, tmp_path / "local").bundle.config.origin
    assert theirs is not None and theirs.hub is None and theirs.sha256 == origin.sha256


def test_the_card_of_a_language_model_says_what_it_does(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "gpt2")
    imported = import_to(tmp_path / "gpt2", tmp_path / "out")
    again = crosshead.load(tmp_path / "out", device="cpu")
    assert again("a dog", length=5) == TextGenerator(imported.bundle)("a dog", length=5)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "A model (language) that writes text." in card and "crosshead generate" in card
    assert 'pipeline_tag: "text-generation"' in card


def test_a_place_in_use_and_a_bad_model_leave_nothing(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("mine")
    with pytest.raises(UserError, match="already exists"):
        import_to(shared, tmp_path / "used")
    with pytest.raises(ForeignModelError):
        import_to(tmp_path / "used", tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["used"]
    assert [each.name for each in (tmp_path / "used").iterdir()] == ["file"]


@pytest.mark.parametrize("place", ["new", "empty"])
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_failure_to_write_leaves_no_file(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, function: str
) -> None:
    """The third file cannot be written, or cannot take its place."""
    if place == "empty":
        (tmp_path / "out").mkdir()
    real, calls = getattr(os, function), []

    def fail(*arguments: Any, **more: Any) -> Any:
        calls.extend([arguments] if [*tmp_path.glob("*/*")] else [])
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **more)

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(UserError, match="No space left on device"):
        import_to(shared, tmp_path / "out")
    assert len(calls) >= 3
    assert (tmp_path / "out").exists() == (place == "empty")
    assert [each.name for each in tmp_path.rglob("*")] == ["out"] * (place == "empty")


def test_the_languages_and_the_licence_are_in_the_bundle_and_on_its_card(
    shared: Path, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    (copied / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A model\n")
    stated = {"source_language": "fr", "target_language": "pt-BR"}
    import_to(copied, tmp_path / "out", **stated)
    config = crosshead.load(tmp_path / "out", device="cpu").bundle.config
    assert (config.source_language, config.target_language) == ("fr", "pt-BR")
    assert config.license == "apache-2.0"
    front = (tmp_path / "out" / "README.md").read_text().split("---\n")[1]
    assert 'license: "apache-2.0"' in front and 'language: ["fr", "pt-BR"]' in front
    with pytest.raises(ConfigError, match="expected a language code"):
        import_to(copied, tmp_path / "other", source_language="French")
    assert not (tmp_path / "other").exists()


def test_a_repository_names_the_languages_and_its_card_the_licence(
    shared: Path, tmp_path: Path, hub: Hub
) -> None:
    files = {**contents(shared), "README.md": b"---\nlicense: cc-by-4.0\n---\n"}
    settings = json.loads(files["tokenizer_config.json"])
    del settings["source_lang"], settings["target_lang"]
    hub.repository(
        "anna/opus-mt-fi-sv", {**files, "tokenizer_config.json": json.dumps(settings).encode()}
    )
    found = import_to("hf://anna/opus-mt-fi-sv", tmp_path / "out")
    config = found.bundle.config
    assert (config.source_language, config.target_language) == ("fi", "sv")
    assert config.license == "cc-by-4.0"
    assert any("fi to sv by anna/opus-mt-fi-sv" in each for each in found.notes)


def test_a_directory_and_an_archive_of_it_are_the_same_model(shared: Path, tmp_path: Path) -> None:
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", shared.parent, shared.name))
    one, other = (import_model(each).bundle for each in (shared, packed))
    assert one.config.origin is not None and other.config.origin is not None
    assert one.config.origin.kind == "huggingface"
    assert one.config.origin.sha256 == other.config.origin.sha256
    assert (one.config.origin.name, other.config.origin.name) == ("shared", "packed.zip")


BUNDLE = Path(__file__).parent.parent.parent.parent / "fixtures" / "bundle-format-1"


def test_an_unknown_kind_is_refused(shared: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'huggingface'"):
        import_model(shared, "huggingfac")
    assert recognised(shared, shared) == "huggingface"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "no model of a known kind: expected config.json of Hugging Face, decoder.yml of"),
        (["model.npz", "x/decoder.yml"], "no model of a known kind: "),
        (["onnx/encoder_model.onnx"], "an ONNX export, which cannot be imported; import the model"),
    ],
)
def test_what_is_not_recognised_is_refused_in_a_short_sentence(
    tmp_path: Path, files: list[str], message: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(ForeignModelError) as found:
        import_model(tmp_path)
    said = str(found.value).removeprefix(f"{tmp_path}: ")
    assert said.startswith(message) and len(said) < 170


def test_a_bundle_needs_no_import() -> None:
    with pytest.raises(
        ForeignModelError, match="is a bundle of crosshead: use it without an import"
    ):
        import_model(BUNDLE)


def test_a_directory_of_two_kinds_is_ambiguous(shared: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    (copied / "decoder.yml").touch()
    with pytest.raises(ForeignModelError, match="huggingface or marian; name the kind with --kind"):
        import_model(copied)
    assert import_model(copied, "huggingface").bundle.config.origin is not None


def test_a_message_about_an_archive_names_the_archive(shared: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    (copied / "source.spm").unlink()
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "copied")
    with pytest.raises(ForeignModelError, match=r"packed\.zip/source\.spm: missing") as found:
        import_model(Path(packed))
    assert str(found.value).startswith(packed)


def test_a_gpt2_is_a_model_of_huggingface(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "gpt2")
    assert recognised(tmp_path / "gpt2", tmp_path / "gpt2") == "huggingface"
    config = import_model(tmp_path / "gpt2", "huggingface").bundle.config
    assert config.model.architecture == "language" and config.task == "language"
    change(tmp_path / "gpt2" / "config.json", {"model_type": "opt"})
    with pytest.raises(
        ForeignModelError, match="expected 'marian', 'pegasus' or 'gpt2', found 'opt'; this model"
    ):
        import_model(tmp_path / "gpt2", "huggingface")


def test_of_a_repository_only_files_of_a_model_are_read_and_a_pickle_last() -> None:
    names = [
        "config.json",
        "tokenizer.json",
        "source.spm",
        "opus.vocab.yml",
        "shared_vocabulary.json",
        "model.bin",
        "README.md",
    ]
    others = ["run.py", "tf_model.h5", "x/config.json", "x/pytorch_model.bin", "training.pkl"]
    assert sorted(foreign_files([*names, *others])) == sorted(names)
    assert foreign_files(["README.md", "run.py"]) == []
    pickled, safe = "pytorch_model.bin", "model.safetensors"
    assert foreign_files([pickled, "config.json"]) == ["config.json", pickled]
    for other in (safe, "opus.npz", "model.bin"):
        assert foreign_files([pickled, other]) == [other]
        assert foreign_files([pickled, f"x/{other}"]) == [pickled]


README = "# opus-2020-02-26.zip\n\n* source language(s): en\n* target language(s): de\n"


def of_files(source: str | None = None, target: str | None = None) -> Imported:
    bundle = small_bundle()
    changes = {"source_language": source, "target_language": target}
    config = bundle.config.model_copy(update=changes)
    return Imported(dataclasses.replace(bundle, config=config), ["a note"])


def languages_of(imported: Imported) -> Languages:
    config = imported.bundle.config
    return config.source_language, config.target_language


def test_the_user_comes_before_the_files_the_readme_and_the_name(tmp_path: Path) -> None:
    name, nobody = "opus-mt-fi-sv", (None, None)
    found = with_stated_facts(of_files(), tmp_path, name, nobody)
    assert languages_of(found) == ("fi", "sv") and found.notes[0] == "a note"
    assert "the languages are fi to sv by opus-mt-fi-sv" in found.notes[1]
    (tmp_path / "README.md").write_text(README)
    found = with_stated_facts(of_files(), tmp_path, name, nobody)
    assert languages_of(found) == ("en", "de") and "by README.md" in found.notes[1]
    found = with_stated_facts(of_files("fr", "it"), tmp_path, name, nobody)
    assert languages_of(found) == ("fr", "it") and found.notes == ["a note"]
    found = with_stated_facts(of_files("fr", "it"), tmp_path, name, (None, "pt-BR"))
    assert languages_of(found) == ("fr", "pt-BR") and found.notes == ["a note"]


def test_unknown_languages_are_said(tmp_path: Path) -> None:
    found = with_stated_facts(of_files(), tmp_path, "model", ("en", None))
    assert languages_of(found) == ("en", None)
    assert "--source-language and --target-language" in found.notes[1]
    found = with_stated_facts(of_files(), tmp_path, "en-de", ("de", None))
    assert languages_of(found) == ("de", None)
    model = dataclasses.replace(of_files(), bundle=small_bundle({"architecture": "language"}))
    assert len(with_stated_facts(model, tmp_path, "x", (None, None)).notes) == 1


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("opus-mt-en-de", ("en", "de")),
        ("Helsinki-NLP/opus-mt-tc-big-en-pt_BR", ("en", "pt-BR")),
        ("opus-mt-en-de.zip", ("en", "de")),
        ("ct2-opus-mt-eng-deu-int8", ("eng", "deu")),
        ("en-de", ("en", "de")),
        ("en-de.zip", ("en", "de")),
        ("opus-mt-en-ROMANCE", (None, None)),
        ("my-en-de", (None, None)),
        ("en-en", (None, None)),
        ("snapshots", (None, None)),
    ],
)
def test_a_name_has_languages_only_in_usual_forms(name: str, languages: Languages) -> None:
    assert name_languages(name) == languages


def test_a_side_of_several_languages_has_none() -> None:
    assert readme_languages(README) == ("en", "de")
    assert readme_languages(README.replace(": de", ": de fr")) == ("en", None)
    assert readme_languages("Translates English to German.") == (None, None)


@pytest.mark.parametrize(
    ("front", "licence"),
    [
        ("license: cc-by-4.0", "cc-by-4.0"),
        ('language:\n- en\nlicense: "apache-2.0"  # as Marian\ntags: []', "apache-2.0"),
        ("license:\n- mit\ntags:\n- translation", None),
        ("license:\n- mit\n- other", None),
        ("license: [mit]", None),
        ("license:", None),
        ("license: null", None),
        ("license: " + "x" * 300, None),
        ("other_license: mit\nlicense_name: mine", None),
        ("license: 'mit' # as Marian", "mit"),
        ("license:\n  mit\ntags: []", None),
        ("license: # none yet\ntags:\n- mit", None),
        ("license: >-\n  mit", None),
        ("license: |\n  mit", None),
        ("license: >-", None),
        ("license: |", None),
        ("license: &a mit", None),
        ("license: !!str mit", None),
        ("license: *a", None),
        ("license: {id: mit}", None),
        ("license: [mit, gpl]", None),
        ("license: 'it''s'", None),
        ("license: mit\n  or later", None),
        ("license: mit\nlicense: gpl", None),
        ("license: no", None),
        ('license: "mit # or another"', None),
        ("license: ['mit']", None),
    ],
)
def test_the_licence_is_that_of_the_front_matter(front: str, licence: str | None) -> None:
    assert licence_of(f"---\n{front}\n---\n# A model\nlicense: gpl\n") == licence
    assert licence_of(f"---\n{front}\n---\n".replace("\n", "\r\n")) == licence
    assert licence_of(f"# A model\n{front}\n") is None


def test_the_bundle_has_the_licence_of_the_card(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n")
    found = with_stated_facts(of_files("en", "de"), tmp_path, "x", (None, None))
    assert found.bundle.config.license == "cc-by-4.0"
    assert found.notes == ["a note"]
    (tmp_path / "README.md").write_text("---\nlicense: >-\n  mit\n---\n")
    found = with_stated_facts(of_files("en", "de"), tmp_path, "x", (None, None))
    assert found.bundle.config.license is None
    (tmp_path / "README.md").unlink()
    (tmp_path / "README.md").mkdir()
    found = with_stated_facts(of_files("en", "de"), tmp_path, "x", (None, None))
    assert found.bundle.config.license is None
