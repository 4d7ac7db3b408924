"""The verb `export`, as a user types it."""

import importlib.util
from pathlib import Path

import pytest

from crosshead.bundle.io import save_bundle
from tests.addons.interop.small_bundles import TEXT, small_bundle
from tests.cli.tools import Refused, output_of


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    save_bundle(tmp_path / "bundle", small_bundle(beam=2), "A card.\n")
    return tmp_path / "bundle"


def test_a_model_is_exported_and_verified(
    bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "val.en").write_text("".join(f"{line}\n" for line in TEXT["source"]))
    (tmp_path / "val.de").write_text("".join(f"{line}\n" for line in TEXT["target"]))
    out = tmp_path / "out"
    start = ["export", bundle, "--to", "ctranslate2", "--out", out]
    pairs = ["--valid-source", tmp_path / "val.en", "--valid-target", tmp_path / "val.de"]
    said = output_of([*start, "--type", "int16", *pairs], capfd)
    assert f"{out}, ctranslate2 int16" in said
    assert "length penalty" in said and "identical translations" in said
    assert (out / "model.bin").is_file()
    said = output_of([*start, "--force", "--no-verify"], capfd)
    assert said.splitlines()[-1].split() == ["verified", "no"]


def test_wrong_input_is_refused_in_a_line(bundle: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "val.en").write_text("a\nb\n")
    (tmp_path / "val.de").write_text("a\n")
    start = ["export", bundle, "--out", tmp_path / "out"]
    assert "unknown format 'onyx'; known: ctranslate2, argos, huggingface, onnx, all" in refused(
        *start, "--to", "onyx"
    )
    said = refused(*start, "--to", "all", "--type", "int8")
    assert "--type is for one format; leave it out with --to all, which writes float32" in said
    start += ["--to", "ctranslate2"]
    said = refused(*start, "--valid-target", tmp_path / "val.de")
    assert "--valid-target" in said and "has no --valid-source; give both" in said
    said = refused(
        *start, "--valid-source", tmp_path / "val.en", "--valid-target", tmp_path / "val.de"
    )
    assert "val.en has 2 lines but" in said and "val.de has 1" in said
    assert "no such file" in refused(*start, "--valid-source", tmp_path / "none")
    assert "not a bundle" in refused("export", tmp_path, "--to", "ctranslate2", "--out", "x")
    for to in ("all", "ctranslate2"):
        said = refused("export", bundle, "--to", to, "--out", bundle, "--force")
        assert "is there, and an export would damage it" in said
    assert not (tmp_path / "out").exists() and (bundle / "model.safetensors").is_file()


def test_languages_and_formats_that_are_left_out(
    bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that is missing leaves its format out, in a line."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name, *more: None if name == "onnx" else found(name, *more),
    )
    save_bundle(tmp_path / "unknown", small_bundle(codes=False), "A card.\n")
    languages = ["--source-language", "en", "--target-language", "de"]
    out = tmp_path / "all"
    start = ["export", tmp_path / "unknown", "--to", "all", "--out", out]
    said = output_of([*start, "--no-verify", *languages], capfd).splitlines()
    assert sorted(each.name for each in out.iterdir()) == [
        "README.md", "ctranslate2", "huggingface", "verification.json",
    ]  # fmt: skip
    assert [line for line in said if line.startswith("left out")] == [
        "left out  argos needs onnx: pip install 'crosshead[argos]'",
        "left out  onnx needs onnx: pip install 'crosshead[export]'",
    ]
