import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.bundle import load_bundle, weights_of
from crosshead.models.registry import MODELS
from tests.cli.tools import BUNDLE, Refused, output_of


def test_what_a_bundle_is(capfd: pytest.CaptureFixture[str]) -> None:
    text = output_of(["info", BUNDLE], capfd)
    parameters = sum(weight.numel() for weight in weights_of(load_bundle(BUNDLE).model).values())
    assert f"{parameters:,}" in text
    assert "1+1 layers, d_model 32" in text


def test_presets_have_the_sizes_of_the_paper(capfd: pytest.CaptureFixture[str]) -> None:
    head, *lines = output_of(["presets"], capfd).splitlines()
    assert max(map(len, [head, *lines])) <= 100
    lines = lines[: lines.index("")]  # what is below explains
    rows = {tuple(line.split()[:2]): line for line in lines if not line.startswith(" ")}
    assert head.split() == ["model", "preset", "shape", "vocabulary", "parameters", "MB"]
    assert "63,082,496" in rows["transformer", "base"]
    assert "214,245,376" in rows["transformer", "big"]
    assert [name for model, name in rows if model == "transformer"] == [
        "tiny", "small", "base", "big",
    ]  # fmt: skip
    assert {model for model, _ in rows} == set(MODELS)


def damage_nothing_there(bundle: Path) -> None:
    shutil.rmtree(bundle)


def damage_other_directory(bundle: Path) -> None:
    for file in bundle.iterdir():
        file.unlink()
    (bundle / "notes").write_text("x")


def damage_missing_weights(bundle: Path) -> None:
    (bundle / "model.safetensors").unlink()


def damage_missing_tokenizer(bundle: Path) -> None:
    for file in bundle.glob("tokenizer.*"):
        file.unlink()


def damage_truncated(bundle: Path) -> None:
    path = bundle / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def damage_not_json(bundle: Path) -> None:
    (bundle / "config.json").write_text("{")


def damage_newer_format(bundle: Path) -> None:
    path = bundle / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damage_nothing_there, "no such directory"),
        (damage_other_directory, "not a bundle"),
        (damage_missing_weights, "model.safetensors"),
        (damage_missing_tokenizer, "tokenizer"),
        (damage_truncated, "model.safetensors: truncated or damaged"),
        (damage_not_json, "config.json: not valid JSON"),
        (damage_newer_format, "upgrade crosshead"),
    ],
)
@pytest.mark.parametrize("verb", ["translate", "info"])
def test_bundles_that_are_none(
    verb: str, damage: Callable[[Path], None], words: str, tmp_path: Path, refused: Refused
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(BUNDLE, bundle)
    damage(bundle)
    said = refused(verb, bundle)
    assert words in said
    assert str(bundle) in said
