"""An export is refused, or verified and put in its place, or leaves nothing behind."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from crosshead.addons.interop import export as exporting
from crosshead.addons.interop.base import ForeignSearch, Tolerance
from crosshead.addons.interop.export import export, readme, usual_search, with_languages
from crosshead.addons.interop.formats import FORMATS, export_of
from crosshead.addons.interop.verify import Comparison
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import PYTHON, calling_from
from crosshead.errors import ConfigError, UserError
from crosshead.system import files
from crosshead.system.files import locked, put
from tests.addons.interop.small_bundles import TEXT, shown, small_bundle
from tests.parameters import mostly_slow


def changed(monkeypatch: pytest.MonkeyPatch, name: str, **changes: object) -> None:
    """Change the export of translation models to a format."""
    form = FORMATS[name]
    first, *others = form.exports
    exports = (replace(first, **changes), *others)  # type: ignore[arg-type]
    monkeypatch.setitem(FORMATS, name, replace(form, exports=exports))


def test_an_export_is_verified_and_put_in_its_place(tmp_path: Path) -> None:
    bundle = small_bundle(beam=2)
    out = tmp_path / "new" / "en-de"
    done = export(bundle, "ctranslate2", out, sources=TEXT["source"])
    assert [each.name for each in out.parent.iterdir()] == ["en-de"]
    assert done.size == sum(each.stat().st_size for each in out.iterdir())
    said = json.loads((out / "verification.json").read_text())
    assert (said["format"], said["type"], said["lines"]) == ("ctranslate2", "float32", 15)
    assert said["largest_difference"] < 1e-5 and said["different"] == 0
    assert 'directory = Path("en-de")' in (out / "README.md").read_text()
    settings = json.loads((out / "search.json").read_text())
    assert settings["beam_size"] == 2
    assert settings["length_penalty"] == done.search.length_penalty


def test_a_validation_line_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    sources = [*TEXT["source"][:3], "dog " * 1100]
    done = export(small_bundle(beam=2), "ctranslate2", tmp_path / "x", sources=sources)
    assert done.comparison is not None and done.comparison.lines == 3


def test_an_export_that_differs_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(monkeypatch, "ctranslate2", types={"float32": Tolerance(-1.0, 1.0, 0)})
    with pytest.raises(UserError, match="the export differs from the model"):
        export(small_bundle(), "ctranslate2", tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_earlier_export_is_replaced_on_request_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    export(small_bundle(), "ctranslate2", out, verify=False)
    (out / "search.json").write_text("old")
    with pytest.raises(UserError, match=r"out exists already; .* --force"):
        export(small_bundle(), "ctranslate2", out)
    assert (out / "search.json").read_text() == "old"
    changed(monkeypatch, "ctranslate2", write=_fails)
    with pytest.raises(UserError, match="no"):
        export(small_bundle(), "ctranslate2", out, force=True)
    assert (out / "search.json").read_text() == "old"
    monkeypatch.undo()
    export(small_bundle(), "ctranslate2", out, force=True, verify=False)
    assert (out / "search.json").read_text() != "old" and (out / "model.bin").exists()
    assert json.loads((out / "verification.json").read_text())["verified"] is False
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let formats write a word instead of a model: in a directory, or as one file."""

    def writes(bundle: object, kind: str, directory: Path) -> None:
        (directory / "model").write_text("new")

    for name in ("ctranslate2", "argos"):
        changed(
            monkeypatch,
            name,
            write=writes,
            modules=(),
            writes_with=(),
            write_search=lambda bundle, search, directory: None,
        )


def exports(
    out: Path, to: str = "ctranslate2", *, force: bool = True, source: Path | None = None
) -> None:
    export(small_bundle(), to, out, verify=False, force=force, source=source)


@pytest.mark.usefixtures("quick")
def test_only_an_export_is_replaced(tmp_path: Path) -> None:
    folder, file = tmp_path / "documents", tmp_path / "letter.argosmodel"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    file.write_text("dear")
    (tmp_path / "link").symlink_to(folder)
    for out, to in ((folder, "ctranslate2"), (tmp_path / "link", "ctranslate2"), (file, "argos")):
        for force in (True, False):
            with pytest.raises(UserError, match=r"is no export of crosshead by .*; remove"):
                exports(out, to, force=force)
    assert (folder / "letter.txt").read_text() == file.read_text() == "dear"
    (tmp_path / "empty").mkdir()
    exports(tmp_path / "empty")
    exports(tmp_path / "empty")
    names = {each.name for each in (tmp_path / "empty").iterdir()}
    assert names == {"README.md", "model", "verification.json"}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("force", [False, True])
def test_what_appears_at_the_place_during_an_export_stays(
    force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def writes(bundle: object, kind: str, directory: Path) -> None:
        out.mkdir()
        (out / "thesis.txt").write_text("dear")

    changed(monkeypatch, "ctranslate2", write=writes)
    with pytest.raises(UserError, match=r"out is no export of crosshead"):
        exports(out, force=force)
    assert [each.name for each in tmp_path.rglob("*")] == ["out", "thesis.txt"]


def test_no_rename_replaces_a_full_directory_unasked(tmp_path: Path) -> None:
    for name in ("new", "place"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    with pytest.raises(OSError, match="not empty"):
        put(tmp_path / "new", tmp_path / "place", replace=False)
    assert (tmp_path / "place" / "place").exists() and (tmp_path / "new" / "new").exists()


@pytest.mark.usefixtures("quick")
def test_force_keeps_what_crosshead_has_not_written(tmp_path: Path) -> None:
    out, copied = tmp_path / "out", tmp_path / "copied"
    exports(out)
    copied.mkdir()
    (copied / "verification.json").write_bytes((out / "verification.json").read_bytes())
    for place in (out, copied):
        (place / "transformers").mkdir()
        (place / "transformers" / "model").write_text("dear")
        with pytest.raises(UserError) as refusal:
            exports(place)
        assert str(refusal.value) == (
            f"{place / 'transformers'} is not listed in verification.json of the export, and the "
            "new export would remove it; move it, or name another place"
        )
        assert (place / "transformers" / "model").read_text() == "dear"
    (out / "transformers" / "model").unlink()
    (out / "transformers").rmdir()
    exports(out)


@pytest.mark.usefixtures("quick")
def test_the_hidden_directory_of_another_process_stays(tmp_path: Path) -> None:
    other = tmp_path / ".out.0.crosshead"
    other.mkdir()
    (other / "model").touch()
    with locked(other):
        exports(tmp_path / "out")
    assert (other / "model").exists() and (tmp_path / "out" / "model").exists()


@pytest.mark.usefixtures("quick")
def test_a_package_whose_export_is_killed_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "x.argosmodel"
    exports(out, "argos")
    rename = Path.replace

    def killed(self: Path, place: Path) -> Path:
        rename(self, place)
        if place.parent == tmp_path:
            raise KeyboardInterrupt
        return place

    monkeypatch.setattr(exporting.Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        exports(out, "argos")
    monkeypatch.undo()
    exporting.check_place(out, force=True, suffix=".argosmodel")


FOREIGN = (
    "mine",
    '{"of": "another program"}',
    '{"format": "csv", "crosshead": "1"}',
    "[]",
    "[" * 10**5,
)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "text", [*FOREIGN, None], ids=["text", "other", "csv", "list", "deep", "pipe"]
)
@pytest.mark.parametrize("to", ["ctranslate2", "argos"])
def test_a_file_of_the_user_is_not_taken_for_that_of_an_export(
    text: str | None, to: str, tmp_path: Path
) -> None:
    out = tmp_path / "x.argosmodel"
    if to == "argos":
        out.write_text("dear")
        marker = tmp_path / "x.argosmodel.verification.json"
    else:
        out.mkdir()
        marker = out / "verification.json"
    if text is None:
        os.mkfifo(marker)
    else:
        marker.write_text(text)
    with pytest.raises(UserError) as refusal:
        exports(out, to)
    assert str(refusal.value) == (
        f"{out} is no export of crosshead by {marker.name}; remove it yourself, or name another "
        "place"
    )
    assert text is None or marker.read_text() == text


@pytest.mark.usefixtures("quick")
def test_no_export_touches_the_bundle(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "en-de"
    run.mkdir(parents=True)
    for each in (run, run.parent):  # even if both look like exports
        (each / "verification.json").write_text('{"format": "ctranslate2", "crosshead": "1"}')
    (tmp_path / "link").symlink_to(run)
    for out in (run, run.parent, run / "new", tmp_path / "link", tmp_path / "link" / "new"):
        with pytest.raises(UserError, match=r"the bundle .* is there, and an export would damage"):
            exports(out, source=run)
        with pytest.raises(UserError, match=r"the bundle .* is there"):
            exports(out, source=tmp_path / "link")
    assert [each.name for each in run.iterdir()] == ["verification.json"]
    exports(tmp_path / "runs" / "en-de-2", source=run)


@pytest.mark.usefixtures("quick")
def test_the_figures_beside_a_file_are_those_of_the_file(tmp_path: Path) -> None:
    out, beside = tmp_path / "x.argosmodel", tmp_path / "x.argosmodel.verification.json"
    exports(out, "argos")
    beside.write_text(json.dumps({**json.loads(beside.read_text()), "largest_difference": 0.1}))
    exports(out, "argos")
    found = json.loads(beside.read_text())
    assert (found["verified"], found["format"], found["type"]) == (False, "argos", "float32")
    assert "largest_difference" not in found
    other = tmp_path / "y.argosmodel.verification.json"
    other.write_text("mine")
    with pytest.raises(UserError, match="is no export of crosshead"):
        exports(tmp_path / "y.argosmodel", "argos")
    assert other.read_text() == "mine"


@pytest.mark.usefixtures("quick")
def test_an_earlier_export_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    exports(out)
    (out / "model").write_text("old")
    replace = Path.replace

    def fails_for_new(self: Path, place: Path) -> Path:
        if self.name.endswith(".crosshead"):
            raise OSError(28, "No space left on device")
        return replace(self, place)

    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    monkeypatch.setattr(Path, "replace", fails_for_new)
    with pytest.raises(UserError, match="cannot be written: No space left"):
        exports(out)
    assert (out / "model").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("to", ["ctranslate2", "argos"])
def test_all_files_are_on_the_disk_before_they_take_their_place(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.add(os.fstat(descriptor).st_ino))
    out = tmp_path / "x.argosmodel"
    exports(out, to)
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert (
        len(files) == 2 + (to == "ctranslate2")
        and {each.stat().st_ino for each in files} <= flushed
    )


def _fails(*_: object) -> None:
    raise UserError("no")


def test_a_refusal_comes_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.score = additive"):
        export(small_bundle({"score": "additive"}), "ctranslate2", tmp_path / "out")
    with pytest.raises(ConfigError, match=r"unknown format 'ctranslate'; known: ctranslate2, "):
        export(small_bundle(), "ctranslate", tmp_path / "out")
    with pytest.raises(ConfigError) as refusal:
        export(small_bundle(), "ctranslate2", tmp_path / "out", kind="int")
    assert str(refusal.value) == (
        "--type: ctranslate2 has no number format 'int'; it has float32, int8, int8_float32, "
        "int16, float16, bfloat16"
    )
    assert not list(tmp_path.iterdir())


def test_languages_that_a_bundle_lacks_are_given(tmp_path: Path) -> None:
    bundle = small_bundle(codes=False)
    with pytest.raises(
        ConfigError, match="give --source-language and --target-language, or train on"
    ):
        export(bundle, "argos", tmp_path / "x.argosmodel", verify=False)
    out = tmp_path / "x"
    export(bundle, "ctranslate2", out, verify=False, source_language="en", target_language="fr")
    assert 'language: ["en", "fr"]' in (out / "README.md").read_text()


def test_named_languages_are_those_of_the_bundle() -> None:
    found = with_languages(small_bundle(codes=False), "en", "pt_BR")
    assert isinstance(found, TextBundle)
    assert (found.config.source_language, found.config.target_language) == ("en", "pt-BR")
    bundle = small_bundle()
    assert with_languages(bundle, None, None) is bundle
    again = with_languages(bundle, "en", None)
    assert isinstance(again, TextBundle) and again.config == bundle.config


def test_other_languages_are_refused() -> None:
    with pytest.raises(ConfigError) as refusal:
        with_languages(small_bundle(), "en", "fr")
    assert str(refusal.value) == ("--target-language fr: the bundle says de; leave the option out")
    several = small_bundle({}, {"special": ["<2de>", "<2fr>"]}, languages=True)
    with pytest.raises(ConfigError, match="--target-language de: the bundle says de, fr; leave"):
        with_languages(several, None, "de")
    with pytest.raises(ConfigError, match="--source-language: expected a language code"):
        with_languages(small_bundle(codes=False), "English", None)
    language = small_bundle({"architecture": "language"})
    with (
        calling_from(PYTHON),
        pytest.raises(ConfigError, match="source_language='en': only translation models have"),
    ):
        with_languages(language, "en", None)


@pytest.mark.slow
def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError) as missing:
        export(small_bundle(), "ctranslate2", tmp_path / "out")
    assert str(missing.value) == ("ctranslate2 needs ctranslate2: pip install 'crosshead[export]'")
    with pytest.raises(UserError, match=r"argos needs ctranslate2 and onnx: pip"):
        export(small_bundle(), "argos", tmp_path / "x.argosmodel")
    changed(monkeypatch, "ctranslate2", writes_with=())
    export(small_bundle(), "ctranslate2", tmp_path / "out", verify=False)


NAMES = {
    "beam": ("beam_size", "num_beams"),
    "length_penalty": ("length_penalty",),
    "sample": ("do_sample",),
    "temperature": ("sampling_temperature", "temperature"),
    "top_k": ("sampling_topk", "top_k"),
    "top_p": ("sampling_topp", "top_p"),
}


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("transformer", "ctranslate2"),
        ("transformer", "huggingface"),
        ("transformer", "onnx"),
        ("language", "ctranslate2"),
        ("language", "huggingface"),
    ],
)
def test_the_stored_search_is_the_intended_one(
    architecture: str, name: str, tmp_path: Path
) -> None:
    bundle = small_bundle({"architecture": architecture, "norm": "pre"}, {"kind": "bpe"})
    kinds = [ForeignSearch(1, 0.0, 20), ForeignSearch(4, 0.5, 20)]
    if architecture == "language":
        kinds.append(ForeignSearch(1, 0.0, 20, sample=True, temperature=0.7, top_k=0, top_p=0.9))
    for search in kinds:
        export_of(bundle, name).write_search(bundle, search, tmp_path)
        [file] = tmp_path.iterdir()
        stored = json.loads(file.read_text())
        needed = {"temperature", "top_k", "top_p"} if search.sample else {"beam"}
        for key, names in NAMES.items():
            found = [stored[each] for each in names if each in stored]
            assert all(each == getattr(search, key) for each in found)
            assert found or key not in needed
        counted = "decoder_start_token_id" in stored  # transformers counts the start token
        length = stored.get("max_length", stored.get("max_decoding_length"))
        assert length == 20 + counted
        assert ("length_penalty" in stored) >= (search.beam > 1)


@pytest.mark.parametrize(("stop", "exact"), [("exact", True), ("last", False), ("full", False)])
def test_the_exact_rule_travels(stop: str, exact: bool) -> None:
    bundle = small_bundle(beam=2)
    decode = bundle.config.decode.model_copy(update={"stop": stop})
    changed = replace(bundle, config=bundle.config.model_copy(update={"decode": decode}))
    assert usual_search(changed).exact is exact


def test_an_imported_penalty_travels_unchanged() -> None:
    bundle = small_bundle(beam=4)
    decode = bundle.config.decode.model_copy(update={"length_penalty": 0.625, "length_offset": 0.0})
    imported = replace(bundle, config=bundle.config.model_copy(update={"decode": decode}))
    assert usual_search(imported).length_penalty == 0.625


@pytest.mark.parametrize("k", [5.0, 20.0])
def test_the_penalties_have_one_slope_at_the_usual_length(k: float) -> None:
    bundle = small_bundle(beam=3)
    decode = bundle.config.decode.model_copy(update={"length_offset": k})
    changed = replace(bundle, config=bundle.config.model_copy(update={"decode": decode}))
    search = usual_search(changed)
    # The derivative of log ((k + n) / (k + 1))^0.6 by log n at n = 20 is 0.6 * 20 / (k + 20).
    assert search.length_penalty == pytest.approx(0.6 * 20 / (k + 20))
    assert (search.beam, search.max_length) == (3, 41)


LANGUAGE = {"architecture": "language", "positions": "learned"}
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
def test_the_written_program_runs(name: str, tmp_path: Path) -> None:
    """It shows the output that the verification compares."""
    model, tokenizer, to = PROGRAMS[name]
    if to == "argos":
        pytest.importorskip("argostranslate")
    bundle = small_bundle(model, tokenizer, languages=name.endswith("several"), ends=False)
    out = tmp_path / ("en-de.argosmodel" if to == "argos" else "out")
    done = export(bundle, to, out, verify=False)
    program = export_of(bundle, to).usage(bundle, out.name)
    home = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=home, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    if model != LANGUAGE and to != "argos":
        foreign = export_of(bundle, to).load(bundle, done.path)
        [expected] = foreign.translate(["A dog runs."], done.search)
        assert shown(ran.stdout) == shown(expected)
    assert ran.stdout.strip()


FOUND = Comparison(40, True, 900, 1e-6, 1e-7, 0, 36, 1, 4)


@pytest.mark.parametrize("name", ["ctranslate2", "huggingface", "onnx"])
def test_hubs_find_licence_and_library(name: str) -> None:
    bundle = small_bundle()
    form = export_of(bundle, name)
    licensed = replace(bundle, config=bundle.config.model_copy(update={"license": "cc-by-4.0"}))
    text = readme(licensed, form, "en-de", "float32", FOUND)
    front = yaml.safe_load(text.split("---\n")[1])
    assert (front["license"], front["language"]) == ("cc-by-4.0", ["en", "de"])
    assert front["library_name"] == form.library
    assert form.usage(bundle, "en-de") in text
    assert "identical translations 97.2% (35 of 36)." in text
    plain = readme(bundle, form, "en-de", "int8", None)
    assert "icence" not in plain and "license" not in plain and "Compared" not in plain


def test_an_odd_name_stays_a_string_of_the_program() -> None:
    bundle = small_bundle()
    text = readme(bundle, export_of(bundle, "ctranslate2"), 'a"b\\c', "float32", None)
    assert r'directory = Path("a\"b\\c")' in text
