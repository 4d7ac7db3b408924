"""Models of other toolkits are recognised by their files, and named in messages."""

import json
import shutil
from pathlib import Path

import pytest

import crosshead
from crosshead.bundle.foreign import content_of, foreign_models, is_bundle, why_not_a_bundle
from crosshead.errors import BundleError
from crosshead.tasks.registry import load_bundle, outline_bundle, sections_of

BUNDLE = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"


@pytest.mark.parametrize(
    ("names", "config", "kind", "words"),
    [
        (["config.json"], {"model_type": "marian"}, "huggingface", "a Hugging Face model (marian)"),
        (["decoder.yml", "model.npz"], {}, "marian", "a Marian model"),
        (["model.npz.best.decoder.yml"], {}, "marian", "a Marian model"),
        (["model.bin", "config.json"], {"add_source_eos": True}, "ctranslate2", "a CTranslate2"),
        (["metadata.json", "model/model.bin"], {}, "argos", "a package of Argos Translate"),
        (["onnx/encoder_model.onnx"], {"model_type": "marian"}, "", "an ONNX export"),
        (
            ["onnx/encoder_model.onnx", "model.safetensors"],
            {"model_type": "marian"},
            "huggingface",
            "a Hugging Face model",
        ),
    ],
)
def test_a_model_is_recognised_by_its_files(
    names: list[str], config: dict[str, object], kind: str, words: str
) -> None:
    [found] = foreign_models(names, config)
    assert found.kind == kind and found.words.startswith(words)


def test_a_bundle_and_other_files_are_no_foreign_model() -> None:
    config = json.loads((BUNDLE / "config.json").read_text())
    assert is_bundle(config) and foreign_models(["config.json", "model.bin"], config) == []
    assert foreign_models(["x.decoder.yml/a", "folder/x.decoder.yml", "notes"], {}) == []


@pytest.mark.parametrize(
    ("names", "config", "end"),
    [
        (["model.bin"], {}, "import it first: crosshead import 'my model' --out DIR"),
        (["config.json"], {"model_type": "gpt2"}, "import it first: crosshead import 'my model' "),
        (["config.json"], {"model_type": "bart"}, "crosshead cannot import it; use the model in "),
        (["onnx/decoder_model.onnx"], {}, "crosshead cannot import it; use the model in its own"),
    ],
)
def test_the_message_says_what_it_is_and_what_to_do(
    names: list[str], config: dict[str, object], end: str
) -> None:
    message = why_not_a_bundle("my model", foreign_models(names, config))
    assert message is not None and message.startswith("my model: a") and end in message
    assert why_not_a_bundle("x", []) is None


def test_an_archive_has_the_names_inside_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "marian"}')
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "model")
    expected = ({"config.json"}, {"model_type": "marian"})
    assert content_of(Path(packed)) == content_of(folder) == expected
    (tmp_path / "broken.zip").write_bytes(Path(packed).read_bytes()[:40])
    for path in (tmp_path / "broken.zip", tmp_path / "lost"):
        assert content_of(path) == (set(), {})


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("load", [load_bundle, outline_bundle, sections_of, crosshead.load])
def test_a_foreign_model_in_the_place_of_a_bundle_is_not_called_damaged(
    tmp_path: Path, packed: bool, load: object
) -> None:
    place = tmp_path / "opus"
    place.mkdir()
    (place / "config.json").write_text('{"model_type": "marian"}')
    (place / "source.spm").write_text("")
    if packed:
        place = Path(shutil.make_archive(str(place), "zip", tmp_path, "opus"))
    with pytest.raises(BundleError) as error:
        load(place)  # type: ignore[operator]
    assert str(error.value) == (
        f"{place}: a Hugging Face model (marian), not a bundle of crosshead; import it first: "
        f"crosshead import {place} --out DIR"
    )
