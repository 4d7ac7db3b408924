"""The verb `export`, as a user types it."""

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
    out = tmp_path / "out"
    start = ["export", bundle, "--to", "ctranslate2", "--out", out]
    lines = ["--valid-source", tmp_path / "val.en"]
    said = output_of([*start, "--type", "int16", *lines], capfd)
    assert f"{out}, ctranslate2 int16" in said
    assert "length penalty" in said and "identical translations" in said
    assert (out / "model.bin").is_file()
    said = output_of([*start, "--force", "--no-verify"], capfd)
    assert said.splitlines()[-1].split() == ["verified", "no"]


def test_wrong_input_is_refused_in_a_line(bundle: Path, tmp_path: Path, refused: Refused) -> None:
    start = ["export", bundle, "--out", tmp_path / "out"]
    assert "unknown format 'onyx'; known: ctranslate2, argos, huggingface, onnx" in refused(
        *start, "--to", "onyx"
    )
    start += ["--to", "ctranslate2"]
    assert "no such file" in refused(*start, "--valid-source", tmp_path / "none")
    assert "not a bundle" in refused("export", tmp_path, "--to", "ctranslate2", "--out", "x")
    said = refused("export", bundle, "--to", "ctranslate2", "--out", bundle, "--force")
    assert "is there, and an export would damage it" in said
    assert not (tmp_path / "out").exists() and (bundle / "model.safetensors").is_file()


def test_languages_are_given(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    save_bundle(tmp_path / "unknown", small_bundle(codes=False), "A card.\n")
    languages = ["--source-language", "en", "--target-language", "de"]
    start = ["export", tmp_path / "unknown", "--no-verify", "--to"]
    out = tmp_path / "x.argosmodel"
    assert "unknown languages (give --source-language" in refused(*start, "argos", "--out", out)
    output_of([*start, "argos", "--out", out, *languages], capfd)
    assert out.is_file()
