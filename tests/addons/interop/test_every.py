"""All formats in one directory, or nothing."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from crosshead.addons.interop import every
from crosshead.addons.interop.every import export_all
from crosshead.addons.interop.formats import FORMATS, format_of, formats_for
from crosshead.addons.interop.verify import shown
from crosshead.errors import ConfigError, UserError
from tests.addons.interop.small_bundles import small_bundle
from tests.parameters import mostly_slow

LANGUAGE = {"architecture": "language", "positions": "learned"}


@pytest.fixture(autouse=True)
def _only_ctranslate2_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the other formats to their own tests, which skip without their libraries."""
    monkeypatch.setattr(every, "formats_for", lambda bundle: ["ctranslate2"])


def test_one_directory_says_how_each_export_is_loaded(tmp_path: Path) -> None:
    out = tmp_path / "all"
    [done] = export_all(small_bundle(codes=False), out).exports
    assert done.path == out / "ctranslate2" and (done.path / "model.bin").is_file()
    said = (out / "README.md").read_text()
    assert 'directory = Path("ctranslate2")' in said
    assert "largest difference of a log-probability" in said
    assert "- argos: unknown languages (give --source-language and" in said
    assert 'directory = Path("ctranslate2")' in (done.path / "README.md").read_text()
    assert {each.name for each in out.iterdir()} == {
        "ctranslate2",
        "README.md",
        "verification.json",
    }
    assert [each.name for each in tmp_path.iterdir()] == ["all"]
    with pytest.raises(UserError, match=r"the bundle .* is there"):
        export_all(small_bundle(codes=False), out, force=True, source=out / "ctranslate2")
    export_all(small_bundle(codes=False), out, force=True, verify=False)


def test_a_combination_that_a_format_cannot_express_leaves_that_format_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        every, "formats_for", lambda bundle: [n for n in formats_for(bundle) if n != "argos"]
    )
    bundle = small_bundle({"norm": "pre", "tie": "two-way"})
    done = export_all(bundle, tmp_path / "all", verify=False).exports
    assert [each.form for each in done] == ["ctranslate2", "onnx"]
    said = (tmp_path / "all" / "README.md").read_text()
    assert "- huggingface: model.norm = pre with model.tie other than three-way (" in said
    assert "```js\n" in said and 'pipeline("translation", "onnx")' in said


def test_a_format_without_its_library_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(every, "formats_for", lambda bundle: ["ctranslate2", "argos"])
    lacks = replace(FORMATS["argos"], modules=("no_such_library", "nor_this_one"))
    monkeypatch.setitem(FORMATS, "argos", lacks)
    bundle = small_bundle()
    found = export_all(bundle, tmp_path / "all")
    assert [each.form for each in found.exports] == ["ctranslate2"]
    needs = (
        "argos needs no_such_library and nor_this_one: pip install 'crosshead[argos]', or give "
        "--no-verify"
    )
    assert found.left_out == {"argos": needs}
    assert f"- {needs}\n" in (tmp_path / "all" / "README.md").read_text()
    monkeypatch.setattr(every, "formats_for", lambda bundle: ["argos"])
    with pytest.raises(UserError, match=r"^argos needs no_such_library and"):
        export_all(bundle, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_package_stands_beside_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Languages that the bundle does not say go into all of them, and so does the licence."""
    monkeypatch.setattr(every, "formats_for", lambda bundle: ["argos", "ctranslate2"])
    bundle = small_bundle(codes=False)
    config = bundle.config.model_copy(update={"license": "cc-by-4.0"})
    out = tmp_path / "all"
    export_all(
        replace(bundle, config=config), out, verify=False, source_language="en",
        target_language="de",
    )  # fmt: skip
    assert {each.name for each in out.iterdir()} == {
        "model.argosmodel", "model.argosmodel.verification.json", "ctranslate2", "README.md",
        "verification.json",
    }  # fmt: skip
    said = (out / "README.md").read_text()
    assert "Licence: `cc-by-4.0`." in said
    assert 'translate("A dog runs.", "en", "de")' in said and '"model.argosmodel"' in said


def test_a_disk_that_is_full_names_the_place_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(FORMATS, "ctranslate2", replace(FORMATS["ctranslate2"], write=full))
    with pytest.raises(UserError) as error:
        export_all(small_bundle(), tmp_path / "all")
    assert str(error.value).startswith(f"{tmp_path}/all: cannot be written: No space left")


def test_an_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise UserError("no")

    monkeypatch.setattr(every, "write_export", fails)
    with pytest.raises(UserError, match="no"):
        export_all(small_bundle(), tmp_path / "all")
    assert not list(tmp_path.iterdir())


def test_a_model_that_no_format_expresses_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(every, "formats_for", lambda bundle: [])
    with pytest.raises(
        ConfigError, match=r"ctranslate2: model\.score = additive \(train.*; argos: "
    ):
        export_all(small_bundle({"score": "additive"}), tmp_path / "all")
    assert set(FORMATS) >= {"ctranslate2", "argos"}


PROGRAMS = {
    "subwords": ({}, {}, "ctranslate2"),
    "characters": ({}, {"kind": "characters"}, "ctranslate2"),
    "words": ({}, {"kind": "words"}, "ctranslate2"),
    "bytes": ({}, {"kind": "bytes"}, "ctranslate2"),
    "separate": ({"tie": "none"}, {"joint": False}, "ctranslate2"),
    "imported": ({}, {"kind": "sentencepiece"}, "ctranslate2"),
    "several": ({}, {"special": ["<2de>", "<2fr>"]}, "ctranslate2"),
    "language": (LANGUAGE, {}, "ctranslate2"),
    "gpt2": (LANGUAGE, {"kind": "tokenizer-json"}, "ctranslate2"),
    "letters": (LANGUAGE, {"kind": "characters"}, "ctranslate2"),
    "transformers": ({}, {}, "huggingface"),
    "transformers-several": ({}, {"special": ["<2de>", "<2fr>"]}, "huggingface"),
    "transformers-language": (LANGUAGE, {}, "huggingface"),
    "transformers-gpt2": (LANGUAGE, {"kind": "tokenizer-json"}, "huggingface"),
    "argos": ({}, {}, "argos"),
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", mostly_slow(PROGRAMS, ["separate", "characters"]))
def test_the_written_program_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows the output that the verification compares."""
    model, tokenizer, to = PROGRAMS[name]
    if to == "argos":
        pytest.importorskip("argostranslate")
    monkeypatch.setattr(every, "formats_for", lambda bundle: [to])
    bundle = small_bundle(model, tokenizer, languages=name.endswith("several"), ends=False)
    [done] = export_all(bundle, tmp_path / "all", verify=False).exports
    program = (tmp_path / "all" / "README.md").read_text().split("```")[1].removeprefix("python\n")
    home = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "all", env=home, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    if model != LANGUAGE and to != "argos":
        foreign = format_of(bundle, to).load(bundle, done.path)
        [expected] = foreign.translate(["A dog runs."], done.search.search)
        assert shown(ran.stdout) == shown(expected)
    assert ran.stdout.strip()
