import contextlib
import logging
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import safetensors.torch
import torch

from crosshead.bundle import io as bundle_module
from crosshead.bundle.base import Bundle
from crosshead.bundle.config import FORMAT, BundleScore
from crosshead.bundle.io import BEST, save_bundle
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.bundle.weights import set_weights, weights_of
from crosshead.cli import run
from crosshead.errors import BundleError, DamagedBundle, UserError
from crosshead.models.registry import build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.loading import load
from crosshead.tasks.registry import load_bundle, outline_bundle
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.training.checkpoint import load_best
from crosshead.training.run import train
from tests.bundle.stored import SEALED, STORED, settings
from tests.training.conftest import text
from tests.training.runs import recipe_for, stop_after

FILES = {"README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer.model"}


SCORES = [BundleScore(metric="BLEU", value=38.125, signature="nrefs:1", test_set="validation")]


def make_bundle(tie: str = "two-way", joint: bool = False) -> Bundle:
    source = train_tokenizer(TokenizerConfig(kind="characters"), ["abc"])
    target = source if joint else train_tokenizer(TokenizerConfig(kind="characters"), ["defgh"])
    config = TextBundleConfig(
        model=TransformerConfig.model_validate(
            {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 8, "heads": 2}
            | {"tie": tie}
        ),
        joint_tokenizer=joint,
        source_vocabulary=source.vocab_size,
        target_vocabulary=target.vocab_size,
        longest_source=10,
        scores=SCORES,
    )
    model = build_model(config.model, source.vocab_size, target.vocab_size)
    return TextBundle(config, model, source, target)


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_a_stored_bundle_of_every_format_still_loads_and_gives_the_same_output(
    number: int,
) -> None:
    translate = load(STORED.with_name(f"bundle-format-{number}"), "cpu")
    assert translate(["One two three.", "Ten four eight seven nine six."]) == [
        "Eins zwei drei.",
        "Zehn vier acht sieben neun sechs.",
    ]
    assert not translate.model.training


@pytest.mark.parametrize(
    ("tie", "joint"), [("three-way", True), ("two-way", False), ("none", False)]
)
def test_what_is_saved_is_loaded(tmp_path: Path, tie: str, joint: bool) -> None:
    saved = make_bundle(tie, joint)
    save_bundle(tmp_path / "new" / "run", saved, "# Card\n")
    loaded = load_bundle(tmp_path / "new" / "run")
    assert loaded.config == saved.config
    assert loaded.config.scores == SCORES
    assert loaded.target_tokenizer.decode(saved.target_tokenizer.encode("abc")) == (
        saved.target_tokenizer.decode(saved.target_tokenizer.encode("abc"))
    )
    weights = weights_of(loaded.model)
    assert weights.keys() == weights_of(saved.model).keys()
    assert all(torch.equal(weights[name], w) for name, w in weights_of(saved.model).items())
    source, target = torch.tensor([[4, 5, 2]]), torch.tensor([[1, 4]])
    torch.testing.assert_close(loaded.model(source, target), saved.model.eval()(source, target))
    assert (tmp_path / "new" / "run" / "README.md").read_text() == "# Card\n"


def test_a_tied_matrix_is_stored_once_and_tied_after_loading(tmp_path: Path) -> None:
    save_bundle(tmp_path, make_bundle("three-way", joint=True), "")
    names = set(safetensors.torch.load_file(tmp_path / "model.safetensors"))
    assert len([name for name in names if "embeddings" in name or "projection" in name]) == 1
    model = load_bundle(tmp_path).model
    assert model.projection.weight is model.source_embeddings.weight
    assert model.projection.weight is model.target_embeddings.weight


def test_weights_are_copied_in_place(tmp_path: Path) -> None:
    first, second = make_bundle(), make_bundle()
    parameter = first.model.projection.weight
    set_weights(first.model, weights_of(second.model))
    assert first.model.projection.weight is parameter
    torch.testing.assert_close(parameter, second.model.projection.weight)


def test_weights_of_another_shape_are_refused_before_any_is_copied() -> None:
    bundle = make_bundle()
    before = {name: tensor.clone() for name, tensor in weights_of(bundle.model).items()}
    weights = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    last = list(weights)[-1]
    weights[last] = torch.zeros(1, 1, 1)
    with pytest.raises(BundleError, match=rf"other/run: tensor '{last}' has shape \[1, 1, 1\]"):
        set_weights(bundle.model, weights, "other/run")
    assert all(torch.equal(before[name], w) for name, w in weights_of(bundle.model).items())


def test_loading_leaves_the_random_numbers_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    load_bundle(STORED)
    assert torch.equal(torch.rand(3), expected)


def test_half_precision_is_stored_in_float32(tmp_path: Path) -> None:
    saved = make_bundle()
    saved.model.to(torch.bfloat16)
    save_bundle(tmp_path, saved, "")
    weights = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


def test_the_configuration_takes_its_place_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = []
    move = Path.replace

    def spy(self: Path, target: Path) -> Path:
        moved.append(target.name)
        return move(self, target)

    monkeypatch.setattr(Path, "replace", spy)
    save_bundle(tmp_path / "run", load_bundle(STORED), "")
    written = [name for name in moved if name in FILES]
    assert written[-1] == "config.json"
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES


def test_a_failure_while_saving_leaves_the_earlier_bundle_whole(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in stored.iterdir()}
    open_file = os.open

    def full(path: Path, *arguments: Any, **named: Any) -> int:
        if "safetensors" in str(path):
            raise OSError(28, "No space left on device")
        return open_file(path, *arguments, **named)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(UserError, match=r"model\.safetensors: cannot be written: No space left"):
        save_bundle(stored, make_bundle(), "other")
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in stored.iterdir()} == before


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(UserError, match="run: cannot make the directory"):
        save_bundle(tmp_path / "run", make_bundle(), "")


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    """A damage: other tensors in model.safetensors."""

    def rewrite(directory: Path) -> None:
        path = directory / "model.safetensors"
        weights = dict(safetensors.torch.load(path.read_bytes()))
        change(weights)
        path.write_bytes(safetensors.torch.save(weights))

    return rewrite


def writing(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda directory: (directory / name).write_bytes(data) and None


def without(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).unlink()


def truncated(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def replaced_by_a_directory(name: str) -> Callable[[Path], None]:
    def replace_it(directory: Path) -> None:
        (directory / name).unlink()
        (directory / name).mkdir()

    return replace_it


DAMAGES: list[tuple[Callable[[Path], object], str]] = [
    (shutil.rmtree, "bundle: no such directory"),
    (without("config.json"), r"not a bundle: it has no config\.json"),
    (without("model.safetensors"), r"model\.safetensors: missing"),
    (without("tokenizer.model"), r"tokenizer\.model"),
    (without("tokenizer.json"), r"tokenizer\.json"),
    (truncated, r"model\.safetensors: truncated or damaged"),
    (writing("model.safetensors", b""), r"model\.safetensors: truncated or damaged"),
    (writing("model.safetensors", pickle.dumps({})), r"model\.safetensors: truncated or damaged"),
    (writing("tokenizer.model", b"no"), r"tokenizer\.model"),
    (writing("tokenizer.json", b"[" * 100_000), r"tokenizer\.json: not valid JSON; "),
    *(
        (replaced_by_a_directory(name), rf"/{name}: a directory, expected a file")
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer.model")
    ),
    (writing("config.json", b"{"), r"config\.json: not valid JSON \(line 1, column 2\)"),
    (writing("config.json", b"\xff"), r"config\.json: not valid JSON"),
    (writing("config.json", b"[]"), r"config\.json: expected a JSON object, found list"),
    (settings(format=2, new=1), r"format 2 is newer than this crosshead reads \(1\): upgrade"),
    (settings(format="1"), "format: expected a number from 1 to 1, found '1'"),
    (settings(format=True), "format: expected a number from 1 to 1, found True"),
    (settings(longest=1), r"config\.json: unknown key 'longest'; did you mean 'longest_source'"),
    (settings(longest_source=0), r"config\.json: longest_source: .* found 0"),
    (settings(task="summaries"), r"config\.json: task: .* found 'summaries'"),
    (settings(source_vocabulary=331), "source tokenizer has 330 pieces, but config.json says 331"),
    (
        settings(model={"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "heads": 2}),
        r"tensor '.*' (is missing|has shape \[.*\], expected \[.*\])",
    ),
    (
        settings(model={"d_model": 10**15, "heads": 1}),
        r"model\.d_model: expected 65,?536 or less, found 1",
    ),
    (tensors(lambda weights: weights.pop("projection.weight", None) or weights.popitem()), "miss"),
    (tensors(lambda weights: weights.update(extra=torch.zeros(1))), "unexpected tensor 'extra'"),
    (
        tensors(lambda weights: weights.update({max(weights): torch.zeros(3, 5)})),
        r"has shape \[3, 5\], expected \[",
    ),
    (
        tensors(lambda w: w.update({max(w): w[max(w)].to(torch.float16)})),
        "is float16, expected float32",
    ),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_every_damage_is_one_line(
    stored: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(stored)
    with pytest.raises(BundleError, match=message) as caught:
        load_bundle(stored)
    said = str(caught.value)
    assert "\n" not in said
    assert str(stored) in said
    ways = ("take a fresh copy of it, or train it again", "upgrade crosshead", "`crosshead train")
    assert any(way in said for way in ways) or "no such directory" in said


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer.model"]
)
def test_a_file_cut_short_anywhere_or_changed_is_said_to_be_damaged(
    name: str, stored: Path
) -> None:
    path = stored / name
    whole = path.read_bytes()
    size = len(whole.rstrip())
    for length in (0, 1, 8, 9, size // 2, size - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedBundle, match=rf"^{path}: [^\n]* train it again$"):
            load_bundle(stored)
    random = Random(0)
    for _ in range(40):
        changed = bytearray(whole)
        changed[random.randrange(size)] = random.randrange(256)
        path.write_bytes(changed)
        # A changed weight, say, cannot be told from another weight.
        with contextlib.suppress(BundleError):
            load_bundle(stored)


def test_equal_weights_are_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save_bundle(tmp_path / name, load_bundle(SEALED), name)
    one, two, stored = (
        each / "model.safetensors" for each in (tmp_path / "one", tmp_path / "two", SEALED)
    )
    assert one.read_bytes() == two.read_bytes() == stored.read_bytes()


def test_a_bundle_is_outlined_without_its_numbers(sealed: Path) -> None:
    whole, outline = load_bundle(sealed), outline_bundle(sealed)
    assert outline.config == whole.config
    assert {each.device.type for each in outline.model.parameters()} == {"meta"}
    shapes = {name: each.shape for name, each in outline.model.named_parameters()}
    assert shapes == {name: each.shape for name, each in whole.model.named_parameters()}
    path = sealed / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DamagedBundle, match=r"model\.safetensors: its SHA-256 is not the one"):
        outline_bundle(sealed)
    truncated(sealed)
    with pytest.raises(DamagedBundle, match=r"model\.safetensors: its size is not the one"):
        outline_bundle(sealed)


def test_a_model_that_cannot_be_built_is_a_damaged_bundle(tmp_path: Path) -> None:
    saved = make_bundle("two-way")
    impossible = saved.config.model.model_copy(update={"tie": "three-way"})
    config = saved.config.model_copy(update={"model": impossible})
    save_bundle(tmp_path, replace(saved, config=config), "")
    with pytest.raises(
        BundleError, match=r"config\.json: the model cannot be built: three-way tying"
    ):
        load_bundle(tmp_path)


def test_a_model_is_built_and_its_weights_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def count(name: str) -> None:
        function = getattr(bundle_module, name)

        def counted(*given: Any) -> Any:
            calls.append(name)
            return function(*given)

        monkeypatch.setattr(bundle_module, name, counted)

    count("build_without_memory")
    count("check_specs")
    model = load_bundle(STORED).model
    assert calls == ["build_without_memory", "check_specs"]
    assert {each.device.type for each in (*model.parameters(), *model.buffers())} == {"cpu"}


def test_weights_that_change_while_they_are_loaded_are_refused(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that are checked are those that are loaded."""
    build = bundle_module.build_without_memory

    def change_then_build(*given: Any) -> Any:
        time.sleep(0.1)
        with (sealed / "model.safetensors").open("r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(b"\0\0\0\x3f")
        return build(*given)

    monkeypatch.setattr(bundle_module, "build_without_memory", change_then_build)
    with pytest.raises(DamagedBundle, match=r"model\.safetensors: its SHA-256 is not the one"):
        load_bundle(sealed)


def test_a_loaded_model_does_not_change_with_its_file(stored: Path) -> None:
    model, path = load_bundle(stored).model, stored / "model.safetensors"
    before = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(1000))
    assert all(torch.equal(before[name], now) for name, now in weights_of(model).items())


SHAPES = """
import sys
import torch
from crosshead.bundle.weights import build_without_memory
from crosshead.models.convolutional import ConvolutionalConfig
from functools import partial
from crosshead.addons.series.models.forecaster import ForecasterConfig, ForecasterShape
from crosshead.models.base import TokenModelConfig
from crosshead.addons.vision.models.image_encoder import ImageShape, ImageStackConfig
from crosshead.models.registry import CONFIGS
from crosshead.addons.series.models.forecaster import build_forecaster
from crosshead.addons.vision.models.classifier import build_classifier
from crosshead.models.registry import build_model
from crosshead.addons.vision.bundles import build_image_text_model
from crosshead.addons.vision.models.classifier import ClassifierConfig
from crosshead.models.language import LanguageConfig
from crosshead.models.recurrent import RecurrentConfig
from crosshead.addons.series.models.series_decoders import SeriesRecurrentConfig
variants = [LanguageConfig(positions=p) for p in ("learned", "shaw", "t5", "alibi", "none")]
variants += [LanguageConfig(score=s, positions="none") for s in ("additive", "general", "cosine")]
variants += [RecurrentConfig(attention=a) for a in ("none", "bahdanau", "luong-location")]
plain = [config() for config in CONFIGS.values() if config.__name__ != "ConvolutionalConfig"]
# Weights that are normalised have lengths, and these are computed: they come last. Before them
# come recurrent layers, for which PyTorch 2.9 and 2.10 import the compiler.
late = (RecurrentConfig, SeriesRecurrentConfig, ConvolutionalConfig)
imports = late if torch.__version__.startswith(("2.9.", "2.10.")) else (ConvolutionalConfig,)
found = sorted([*variants, *plain, ConvolutionalConfig()], key=lambda each: type(each) in late)
for config in found:
    build = partial(build_model, config, 10**6, 10**6)
    if isinstance(config, ForecasterConfig):
        build = partial(build_forecaster, config, ForecasterShape(336, 10**6, 7, 4))
    if isinstance(config, ImageStackConfig) and isinstance(config, TokenModelConfig):
        build = partial(build_image_text_model, config, ImageShape(64), 10**6, 10**6)
    if isinstance(config, ClassifierConfig):
        build = partial(build_classifier, config, ImageShape(64), 10**6)
    model = build_without_memory(build)
    assert all(each.is_meta for each in model.parameters()), config
    assert ("torch._dynamo" in sys.modules) <= isinstance(config, imports), config
"""


@pytest.mark.slow
def test_a_model_without_memory_is_there_at_once() -> None:
    """PyTorch's compiler alone would take longer than all else that a command waits for."""
    command, root = [sys.executable, "-c", SHAPES], Path(__file__).parent.parent.parent
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr


__all__ = ["text"]


@pytest.fixture(scope="module")
def stopped(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after two validations; to be read only."""
    out = tmp_path_factory.mktemp("runs") / "stopped"
    summary = train(recipe_for(text), out, should_stop=stop_after(out, 14))
    assert summary.interrupted and not (out / "config.json").exists()
    return out


def copy_of(run_directory: Path, place: Path) -> Path:
    """What loading reads of a run."""
    (place / "checkpoints").mkdir(parents=True)
    for name in ("recipe.toml", "tokenizer.json", f"checkpoints/{BEST}"):
        (place / name).write_bytes((run_directory / name).read_bytes())
    return place


def test_it_is_loaded_and_a_note_says_of_which_update(
    stopped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "crosshead"):
        bundle = load_bundle(stopped)
    [said] = caplog.messages
    assert said.startswith(f"{stopped}: the run is not finished")
    assert said.split()[-1] in ("6", "12")
    best = load_best(stopped / "checkpoints")
    weights = weights_of(bundle.model)
    assert all(torch.equal(weights[name], each) for name, each in best.items())
    assert not bundle.model.training


def test_the_command_line_translates_with_it(
    stopped: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines").write_text("one two\nthree\n")
    assert run(["translate", str(stopped), str(tmp_path / "lines"), "--device", "cpu"]) == 0
    captured = capfd.readouterr()
    assert captured.out.count("\n") == 2
    assert "the run is not finished" in captured.err


def test_a_finished_run_that_lost_its_configuration_is_not_called_unfinished(
    stopped: Path, tmp_path: Path
) -> None:
    place = copy_of(stopped, tmp_path / "run")
    (place / "model.safetensors").write_bytes(b"of the finished run")
    with pytest.raises(BundleError, match=r"config.json is missing; .*train --resume --out"):
        load_bundle(place)
    (place / "model.safetensors").unlink()
    (place / "config.json").symlink_to("nowhere")
    with pytest.raises(BundleError):
        load_bundle(place)


def test_what_is_damaged_is_refused(stopped: Path, tmp_path: Path) -> None:
    out = copy_of(stopped, tmp_path / "run")
    path = out / "checkpoints" / BEST
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(BundleError, match=rf"{BEST}: its checksum differs"):
        load_bundle(out)
    path.write_bytes(data[:-100])
    with pytest.raises(BundleError, match=BEST):
        load_bundle(out)


def test_a_run_without_a_validation_has_nothing_to_try(stopped: Path, tmp_path: Path) -> None:
    out = copy_of(stopped, tmp_path / "run")
    (out / "checkpoints" / BEST).unlink()
    with pytest.raises(BundleError, match="no bundle yet"):
        load_bundle(out)


def test_the_bundle_takes_its_place(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe_for(text), out, should_stop=stop_after(out, 8))
    assert load_bundle(out).config.scores == []
    train(recipe_for(text), out, resume=True)
    assert load_bundle(out).config.scores
