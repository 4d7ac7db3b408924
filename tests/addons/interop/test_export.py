"""An export is refused, or verified and put in its place, or leaves nothing behind."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from crosshead.addons.interop import export as exporting
from crosshead.addons.interop.base import Tolerance
from crosshead.addons.interop.export import export
from crosshead.addons.interop.formats import FORMATS
from crosshead.errors import ConfigError, UserError
from crosshead.system import files
from crosshead.system.files import locked, put
from tests.addons.interop.small_bundles import TEXT, small_bundle

CTRANSLATE2 = FORMATS["ctranslate2"]


def test_an_export_is_verified_and_put_in_its_place(tmp_path: Path) -> None:
    bundle = small_bundle(beam=2)
    out = tmp_path / "new" / "en-de"
    done = export(bundle, "ctranslate2", out, sources=TEXT["source"], references=TEXT["target"])
    assert [each.name for each in out.parent.iterdir()] == ["en-de"]
    assert done.size == sum(each.stat().st_size for each in out.iterdir())
    said = json.loads((out / "verification.json").read_text())
    assert (said["format"], said["type"], said["lines"]) == ("ctranslate2", "float32", 15)
    assert said["largest_difference"] < 1e-5 and said["different"] == 0
    assert 'directory = Path("en-de")' in (out / "README.md").read_text()
    settings = json.loads((out / "search.json").read_text())
    assert settings["beam_size"] == 2
    assert settings["length_penalty"] == done.search.search.length_penalty


def test_a_validation_line_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    """In both places: where the export is compared, and where the length penalty is chosen."""
    sources, references = [*TEXT["source"][:3], "dog " * 1100], [*TEXT["target"][:3], "Hund"]
    bundle = small_bundle(beam=2)
    done = export(bundle, "ctranslate2", tmp_path / "x", sources=sources, references=references)
    assert done.comparison is not None and done.comparison.lines == done.search.pairs == 3


def test_an_export_that_differs_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(CTRANSLATE2, types={"float32": Tolerance(-1.0, 1.0, 0)})
    monkeypatch.setitem(FORMATS, "ctranslate2", wrong)
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
    monkeypatch.setitem(FORMATS, "ctranslate2", replace(CTRANSLATE2, write=_fails))
    with pytest.raises(UserError, match="no"):
        export(small_bundle(), "ctranslate2", out, force=True)
    assert (out / "search.json").read_text() == "old"
    monkeypatch.setitem(FORMATS, "ctranslate2", CTRANSLATE2)
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
        fake = replace(FORMATS[name], write=writes, modules=(), writes_with=())
        fake = replace(fake, write_search=lambda bundle, search, directory: None)
        monkeypatch.setitem(FORMATS, name, fake)


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
            with pytest.raises(
                UserError, match=r"is no export of crosshead: .* is missing; .* remove"
            ):
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

    form = replace(FORMATS["ctranslate2"], write=writes)
    monkeypatch.setitem(FORMATS, "ctranslate2", form)
    with pytest.raises(UserError, match=r"out exists already and is no export of crosshead"):
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
        f"{out} exists already and is no export of crosshead: {marker.name} is no file of "
        "crosshead; only an export is replaced: remove it yourself, or name another place"
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
    with pytest.raises(UserError, match="is no file of crosshead, and the export would replace it"):
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


@pytest.mark.slow
def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError) as missing:
        export(small_bundle(), "ctranslate2", tmp_path / "out")
    assert str(missing.value) == ("ctranslate2 needs ctranslate2: pip install 'crosshead[export]'")
    with pytest.raises(UserError, match=r"needs argostranslate and ctranslate2: pip"):
        export(small_bundle(), "argos", tmp_path / "x.argosmodel")
    alone = replace(CTRANSLATE2, writes_with=())
    monkeypatch.setitem(FORMATS, "ctranslate2", alone)
    with pytest.raises(UserError, match=r"'crosshead\[export\]', or give --no-verify"):
        export(small_bundle(), "ctranslate2", tmp_path / "out")
    export(small_bundle(), "ctranslate2", tmp_path / "out", verify=False)
