"""Translation with a stored model: the text of the bundle's own model, without PyTorch."""

import errno
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crosshead.bundle.io import save_bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.bundle.texts import BundleState
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.engine import EngineSearch
from crosshead.tasks.translation.stored import StoredTranslator, stored_translator
from crosshead.tasks.translation.translator import Translator
from tests.tasks.translation.conftest import NEEDS_EXPORT
from tests.tasks.translation.translators import STORED

pytestmark = NEEDS_EXPORT

LINES = ["One two three.", "Ten nine.", "", "Four five {name} seven.", "See https://a.org/b."]

PROGRAM = """
import sys
from crosshead.cli.program import run
code = run(sys.argv[1:])
sys.exit(code if code else 40 + ("torch" in sys.modules))
"""
WITHOUT, WITH = 40, 41
"""Exit codes of a program that ended well, without PyTorch and with it."""


def bundle_of(seed: int | None = None) -> TextBundle:
    """The stored bundle with CTranslate2's rules of search, and other weights for a seed."""
    bundle = load_as(Translator, STORED, "cpu").bundle
    if seed is not None:
        torch.manual_seed(seed)
        with torch.no_grad():
            for each in bundle.model.parameters():
                each.add_(0.1 * torch.randn_like(each))
    decode = bundle.config.decode.model_copy(update={"stop": "count", "length_offset": 0.0})
    config = bundle.config.model_copy(update={"decode": decode})
    return replace(bundle, config=config)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    save_bundle(tmp_path / "bundle", bundle_of(), "card")
    return tmp_path / "bundle"


def translated(place: Path, *options: str, text: str = "\n".join(LINES)) -> tuple[int, str]:
    """The exit code and the output of a process that translates."""
    command = [sys.executable, "-c", PROGRAM, "translate", str(place), *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout


def own(place: Path) -> list[str]:
    return load_as(Translator, place, "cpu")(LINES)


def found_at(place: Path, name: str = "auto") -> StoredTranslator | None:
    return stored_translator(place, name, lambda decode: decode, 1)


def stored_at(place: Path) -> StoredTranslator:
    """The translator with the model that a first translation stores."""
    translator = load_as(Translator, place, "cpu")
    translator.engine = EngineSearch("auto", 1, BundleState.of(place))
    translator(LINES)
    found = found_at(place)
    assert found is not None
    return found


def test_the_first_run_stores_the_model_and_others_need_no_pytorch(place: Path) -> None:
    expected = "\n".join(own(place)) + "\n"
    assert translated(place) == (WITH, expected)
    assert translated(place) == (WITHOUT, expected)
    assert json.loads(translated(place, "--jsonl", text="one two")[1])["engine"] == "ctranslate2"
    page = "<p>One <b>two</b> three. <i>Ten</i> nine.</p>"
    code, tagged = translated(place, "--format", "html", text=page)
    assert code == WITHOUT
    assert translated(place, "--format", "html", "--engine", "crosshead", text=page) == (
        WITH, tagged,
    )  # fmt: skip
    assert (place / ".engines" / "ctranslate2" / ".gitignore").read_text() == "*\n"
    for options in (["--sample"], ["--engine", "crosshead"], ["--precision", "bfloat16"]):
        assert translated(place, *options)[0] == WITH


def test_hypotheses_and_alignments_are_those_of_the_model(place: Path) -> None:
    found, translator = stored_at(place), load_as(Translator, place, "cpu")
    with pytest.raises(ConfigError, match="one search"):
        found.translate(LINES, decode=DecodeConfig(beam=1))
    expected = translator.translate(LINES, n_best=3)
    for mine, theirs in zip(found.translate(LINES, n_best=3), expected, strict=True):
        assert [each.text for each in mine] == [each.text for each in theirs]
        for one, other in zip(mine, theirs, strict=True):
            assert one.score == pytest.approx(other.score, abs=2e-3)
    encode = translator.bundle.source_tokenizer.encode
    examples = [(encode(line), encode(line[::-1])) for line in LINES if line]
    pairs = zip(found.alignments.of(examples), translator.alignments.of(examples), strict=True)
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
    assert found.most_positions == translator.most_positions
    assert found.max_source_length == translator.max_source_length


def test_a_bundle_that_was_trained_anew_is_not_translated_by_its_old_model(place: Path) -> None:
    stored_at(place)
    save_bundle(place, bundle_of(seed=3), "card")
    assert not (place / ".engines").exists() and found_at(place) is None
    assert stored_at(place)(LINES) == own(place)


def test_a_model_is_not_stored_for_a_bundle_that_has_replaced_it(place: Path) -> None:
    state, translator = BundleState.of(place), load_as(Translator, place, "cpu")
    save_bundle(place, bundle_of(seed=3), "card")
    translator.engine = EngineSearch("auto", 1, state)
    translator(LINES)
    assert found_at(place) is None


def test_a_model_of_other_versions_is_stored_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = stored_at(place)(LINES)
    for name, value in (("__version__", "0.0.1"), ("version", lambda package: "1.0")):
        with monkeypatch.context() as patch:
            patch.setattr(f"crosshead.addons.interop.ctranslate2_model.{name}", value)
            assert found_at(place) is None
    assert found_at(place) is not None and stored_at(place)(LINES) == expected


def test_a_model_that_vanishes_and_a_gpu_are_left_to_the_loader(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_at(place)

    class Vanished:
        gpus = 0

        def get_cuda_device_count(self) -> int:
            return self.gpus

        def Translator(self, *arguments: object, **named: object) -> object:
            raise RuntimeError("Unable to open file 'model.bin' in model")

    for module in ("engine", "model"):
        monkeypatch.setattr(f"crosshead.addons.interop.ctranslate2_{module}.library", Vanished)
    assert found_at(place) is None
    monkeypatch.setattr(Vanished, "gpus", 1)
    monkeypatch.setattr(Vanished, "Translator", lambda *arguments, **named: object())
    assert found_at(place) is None


@pytest.mark.parametrize("damage", ["short", "other", "missing", "record", "no record"])
def test_a_damaged_model_is_stored_again(place: Path, damage: str) -> None:
    expected = stored_at(place)(LINES)
    name = "stored.json" if damage == "record" else "model.bin"
    file = place / ".engines" / "ctranslate2" / name
    data = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "no record":
        (file.parent / "stored.json").unlink()
    elif damage == "other":
        file.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    else:
        file.write_bytes(data[: len(data) // 2])
    assert found_at(place) is None
    assert stored_at(place)(LINES) == expected


def test_where_nothing_can_be_written_nothing_is_stored(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("crosshead.addons.interop.ctranslate2_engine.put", full)
    before, translator = sorted(place.iterdir()), load_as(Translator, place, "cpu")
    for where in (place, tmp_path / "hf:" / "org" / "name"):
        translator.engine = EngineSearch("auto", 1, BundleState.of(where))
        assert translator(LINES) == own(place)
    assert sorted(place.iterdir()) == before and not (tmp_path / "hf:").exists()
    assert "cannot be stored there (no space left on device)" in caplog.text


@pytest.mark.parametrize("way", ["the folder", "its parent"])
def test_what_stands_elsewhere_is_never_replaced(place: Path, tmp_path: Path, way: str) -> None:
    other = tmp_path / "other" / "ctranslate2"
    other.mkdir(parents=True)
    (other / "thesis.txt").write_text("precious")
    if way == "its parent":
        (place / ".engines").symlink_to(other.parent)
    else:
        (place / ".engines").mkdir()
        (place / ".engines" / "ctranslate2").symlink_to(other)
    translator = load_as(Translator, place, "cpu")
    translator.engine = EngineSearch("auto", 1, BundleState.of(place))
    assert translator(LINES) == own(place) and found_at(place) is None
    assert [each.name for each in other.iterdir()] == ["thesis.txt"]
    assert [each.name for each in other.parent.iterdir()] == ["ctranslate2"]


@pytest.mark.parametrize(
    "change",
    [{"files": {}}, {"files": {"../../config.json": {"sha256": "0" * 64, "bytes": 1}}},
     {"most_source": -5}],
    ids=["no files", "a file elsewhere", "no room"],
)  # fmt: skip
def test_a_record_that_was_not_written_here_is_not_believed(
    place: Path, change: dict[str, object]
) -> None:
    expected, record = stored_at(place)(LINES), place / ".engines/ctranslate2/stored.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | change))
    assert found_at(place) is None
    assert stored_at(place)(LINES) == expected


def test_a_bundle_without_a_checksum_of_its_own_stores_nothing(place: Path) -> None:
    values = json.loads((place / "config.json").read_text())
    del values["config_sha256"]
    (place / "config.json").write_text(json.dumps(values))
    translator = load_as(Translator, place, "cpu")
    translator.engine = EngineSearch("auto", 1, BundleState.of(place))
    translator(LINES)
    assert not (place / ".engines").exists()


def test_old_damaged_and_missing_bundles_are_left_to_the_loader(
    place: Path, tmp_path: Path
) -> None:
    stored_at(place)
    assert found_at(STORED) is None and found_at(tmp_path / "nothing") is None
    assert found_at(place, "crosshead") is None
    with pytest.raises(ConfigError, match="unknown engine 'marian'"):
        found_at(place, "marian")
    assert stored_translator(place, "auto", lambda decode: DecodeConfig(beam=3), 1) is None
    moved = tmp_path / "moved"
    shutil.move(place, moved)
    assert found_at(moved) is not None
    (moved / "tokenizer.json").write_text("{}")
    assert found_at(moved) is None
