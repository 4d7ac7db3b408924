"""An export is refused, or verified and put in its place, or leaves nothing behind."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from crosshead.errors import ConfigError, UserError
from crosshead.interop import export as exporting
from crosshead.interop.base import Tolerance
from crosshead.interop.export import export
from crosshead.interop.formats import FORMATS
from tests.interop.small_bundles import TEXT, small_bundle

CTRANSLATE2 = FORMATS["ctranslate2"]


def test_an_export_is_verified_and_put_in_its_place(tmp_path: Path) -> None:
    bundle = small_bundle(beam=2)
    out = tmp_path / "new" / "en-de"
    done = export(bundle, "ctranslate2", out, sources=TEXT["source"], references=TEXT["target"])
    assert [each.name for each in out.parent.iterdir()] == ["en-de"]
    assert done.size == sum(each.stat().st_size for each in out.iterdir())
    said = json.loads((out / "verification.json").read_text())
    assert (said["format"], said["type"], said["lines"]) == ("ctranslate2", "float32", 15)
    assert said["largest_difference"] < 1e-5 and said["identical"] == 1.0
    settings = json.loads((out / "search.json").read_text())
    assert settings["beam_size"] == 2
    assert settings["length_penalty"] == done.search.search.length_penalty


def test_an_export_that_differs_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(CTRANSLATE2, types={"float32": Tolerance(-1.0, 1.0)})
    monkeypatch.setitem(FORMATS, "ctranslate2", wrong)
    with pytest.raises(UserError, match="the export differs from the model"):
        export(small_bundle(), "ctranslate2", tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_earlier_export_is_replaced_on_request_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").touch()
    with pytest.raises(UserError, match=r"out exists already; .* --force"):
        export(small_bundle(), "ctranslate2", out)
    assert (out / "old").exists()
    monkeypatch.setitem(FORMATS, "ctranslate2", replace(CTRANSLATE2, write=_fails))
    with pytest.raises(UserError, match="no"):
        export(small_bundle(), "ctranslate2", out, force=True)
    assert [each.name for each in out.iterdir()] == ["old"]
    monkeypatch.setitem(FORMATS, "ctranslate2", CTRANSLATE2)
    export(small_bundle(), "ctranslate2", out, force=True, verify=False)
    assert not (out / "old").exists() and (out / "model.bin").exists()
    assert not (out / "verification.json").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def _fails(*_: object) -> None:
    raise UserError("no")


def test_a_refusal_comes_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.score = additive"):
        export(small_bundle({"score": "additive"}), "ctranslate2", tmp_path / "out")
    with pytest.raises(ConfigError, match=r"unknown format 'ctranslate'; did you mean"):
        export(small_bundle(), "ctranslate", tmp_path / "out")
    with pytest.raises(ConfigError, match=r"--type: ctranslate2 has no number format 'int4'"):
        export(small_bundle(), "ctranslate2", tmp_path / "out", kind="int4")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError) as missing:
        export(small_bundle(), "ctranslate2", tmp_path / "out")
    assert str(missing.value) == (
        "ctranslate2 needs ctranslate2, which is not installed: pip install 'crosshead[export]'"
    )
    alone = replace(CTRANSLATE2, writes_alone=True)
    monkeypatch.setitem(FORMATS, "ctranslate2", alone)
    with pytest.raises(UserError, match=r"'crosshead\[export\]', or leave out .* --no-verify"):
        export(small_bundle(), "ctranslate2", tmp_path / "out")
    export(small_bundle(), "ctranslate2", tmp_path / "out", verify=False)
