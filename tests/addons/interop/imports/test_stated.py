"""The languages and the licence of a foreign model come from the user, its files or its name."""

import dataclasses
from pathlib import Path

import pytest

from crosshead.addons.interop.base import Imported
from crosshead.addons.interop.export import export
from crosshead.addons.interop.imports.stated import (
    Languages,
    check_languages,
    licence_of,
    name_languages,
    readme_languages,
    with_stated_facts,
)
from crosshead.errors import ConfigError
from tests.addons.interop.small_bundles import small_bundle

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


@pytest.mark.parametrize("code", ["English", "", "e n"])
def test_what_is_no_code_is_refused(code: str) -> None:
    check_languages(("en", None))
    with pytest.raises(ConfigError, match="--target-language: expected a language code such as en"):
        check_languages(("en", code))


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


def test_the_readme_of_an_export_names_both_languages(tmp_path: Path) -> None:
    for number, (several, languages) in enumerate([(False, ("en", "de")), (True, (None, None))]):
        bundle = small_bundle(languages=several)
        config = bundle.config.model_copy(update={"license": "mit"})
        place = tmp_path / str(number)
        export(dataclasses.replace(bundle, config=config), "huggingface", place, verify=False)
        card = (place / "README.md").read_text()
        assert readme_languages(card) == languages and licence_of(card) == "mit"


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
