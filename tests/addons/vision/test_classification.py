"""The task of classification: its data, its loss, and whole runs by the ordinary commands."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

import crosshead
from crosshead.addons.vision.classification import classification_loss
from crosshead.addons.vision.data.image_epochs import ImageBatch
from crosshead.addons.vision.image_classifier import ImageClassifier
from crosshead.addons.vision.models.classifier import build_classifier
from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.bundle.files import verify_bundle
from crosshead.cli import run
from crosshead.layers.loss import label_smoothed_cross_entropy
from crosshead.models.registry import CONFIGS
from crosshead.recipe import presets
from crosshead.recipe.compose import compose
from crosshead.training.distributed import shard
from tests.addons.vision.drawn_images import CLASSES, SIZE, broken, packed, picture, write_images
from tests.addons.vision.small_classifiers import SIZES
from tests.parameters import mostly_slow
from tests.tasks.reading import read_corpus

TRAIN = ["--threads", 1, "--set", "train.batch_tokens=256", "--set", "learning_rate=0.01"]
TRAIN += ["--precision", "float32"]
PLAIN = ["--set", "data.mixup=0", "--set", "data.cutmix=0", "--set", "data.flip=false"]
PLAIN += ["--set", "data.crop=1"]
WIDE = ["--set", "d_model=18", "--set", "heads=2"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_images(Path("set"), splits=("train", "test"))


def command(*arguments: Any) -> int:
    return run([str(each) for each in arguments])


def trained(out: str, *arguments: Any, model: str = "vit") -> list[dict[str, Any]]:
    sizes = [text for key, value in SIZES[model].items() for text in ("--set", f"{key}={value}")]
    settings = ["--images", "set", "--model", model, *sizes, *TRAIN, *PLAIN, "--set", "dropout=0.0"]
    assert command("train", "--out", out, *settings, *arguments) == 0
    return [json.loads(line) for line in Path(out, "log.jsonl").read_text().splitlines()]


def weights(name: str) -> bytes:
    return Path(name, "model.safetensors").read_bytes()


def corpus(**data: Any) -> Any:
    return read_corpus(compose(flags={"data": {"images": ["set"], **data}}))


@pytest.mark.parametrize("model", SIZES)
def test_bright_halves_are_told_apart(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    end = trained("run", "--max-updates", 40, model=model)[-1]
    assert end["accuracy,_%"] > 90 and end["images"] > 0 and "target_tokens" not in end
    shown = capfd.readouterr()
    assert "(8 x 8 pixels)" in shown.out and "not usable" not in shown.out
    assert "32 images to train on, of 8 x 8 pixels, in 3 classes (high, left, low)" in shown.err
    classify = crosshead.load("run")
    assert isinstance(classify, ImageClassifier)
    assert [classify(picture(label, 5000), top=1)[0][0] for label in CLASSES] == list(CLASSES)
    assert not any(wrong for _, wrong in verify_bundle(Path("run")))


@pytest.mark.parametrize("model", mostly_slow(SIZES, ["vit"]))
def test_a_run_that_is_resumed_is_one_that_was_not_interrupted(model: str) -> None:
    settings = ["--set", "schedule=inverse-sqrt", "--set", "warmup=2", "--set", "dropout=0.2"]
    settings += ["--set", "data.mixup=0.8", "--set", "data.cutmix=1.0", "--set", "data.flip=true"]
    trained("whole", "--max-updates", 8, *settings, model=model)
    trained("parts", "--max-updates", 4, *settings, model=model)
    assert command("train", "--resume", "--out", "parts", "--max-updates", 8) == 0
    assert weights("whole") == weights("parts")


@pytest.mark.parametrize("model", SIZES)
def test_parts_of_a_batch_make_the_same_update(model: str) -> None:
    logs = [
        trained(out, "--max-updates", 4, "--set", "log_every=1", *more, model=model)
        for out, more in (("whole", []), ("parts", ["--set", "accumulate=3"]))
    ]
    losses = [[row["loss"] for row in log if row["kind"] == "train"] for log in logs]
    assert len(losses[0]) == 4 and losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("model", SIZES)
def test_it_is_trained_in_16_bits(model: str) -> None:
    logs = [
        trained(precision, "--max-updates", 5, "--precision", precision, model=model)
        for precision in ("bfloat16", "float32")
    ]
    narrow, wide = ([row["loss"] for row in log if row["kind"] == "valid"][-1] for log in logs)
    learned = [math.log(3) - loss for loss in (narrow, wide)]  # at first all classes are equal
    assert learned[1] > 0.01 and learned[0] == pytest.approx(learned[1], rel=0.2)
    assert narrow != wide


def test_recomputed_layers_make_the_same_updates() -> None:
    trained("kept", "--max-updates", 3)
    trained("recomputed", "--max-updates", 3, "--set", "train.recompute=true")
    assert weights("kept") == weights("recomputed")


def test_bundles_are_averaged_packed_described_and_tuned(
    capfd: pytest.CaptureFixture[str],
) -> None:
    trained("a", "--max-updates", 5)
    trained("b", "--max-updates", 5, "--seed", 2)
    assert command("average", "a", "b", "--out", "mean") == 0
    assert command("pack", "mean", "--out", "mean.crosshead.zip") == 0
    image = picture("low", 1)
    first, second = (crosshead.load(name)(image) for name in ("mean", "mean.crosshead.zip"))
    assert first == second
    capfd.readouterr()
    assert command("info", "mean") == 0
    said = capfd.readouterr().out
    assert "patches of 2 x 2 pixels" in said and "3: high, left, low" in said
    tune = ["train", "--images", "set", "--from", "a", "--max-updates", 2, *TRAIN]
    assert command(*tune, "--out", "tuned") == 0
    capfd.readouterr()
    assert command(*tune, "--set", "data.image_size=4", "--out", "other") == 2
    said = capfd.readouterr().err
    assert "data.image_size is 4, and the bundle has 8" in said and not Path("other").exists()
    Path("set/train/low").rename("set/train/lower")
    assert command(*tune, "--out", "other") == 2
    assert "of the class 'lower'" in capfd.readouterr().err
    Path("set/test/low").rename("set/test/lower")
    trained("c", "--max-updates", 2)
    capfd.readouterr()
    assert command("average", "a", "c", "--out", "none") == 2
    assert "differ in classes" in capfd.readouterr().err


def test_a_run_goes_on_without_broken_images(capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(4):
        broken(Path(f"set/train/left/{number:03}.png"))
    trained("run", "--max-updates", 1)
    said = capfd.readouterr().err
    assert "left out: 4 broken images (set/train/left/00" in said and ", ...)\n" in said
    assert said.count("not a whole image") == 3
    assert "| broken images | 4 |" in Path("run", "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--images", "no"], "no: no such file or folder; give a folder of images or a zip of one"),
        (["--images", "notes.zip"], "neither a folder nor a whole zip archive"),
        (["--images", "set/train/low"], "lies in no class"),
        (["--model", "vit"], "give a folder of images, or a zip of one (--images)"),
        (["--images", "set", "--set", "data.image_size=6"], "not divisible into patches of 4"),
        (["--images", "set", "--set", "image_size=8", "--set", "crop=8"], "out of the picture"),
        (
            ["--images", "set", "--set", "crop=99"],
            "crop 99 moves images of 8 pixels out of the pic",
        ),
        (
            ["--images", "set", "--set", "patch_positions=sinusoidal", *WIDE],
            "sinusoidal patch_positions need a d_model that is divisible by 4, found 18",
        ),
        (["--images", "set", "--model", "convnet", "--set", "blocks=5"], "to nothing; lower"),
        (
            ["--images", "set", "--set", "train.batch_tokens=3"],
            "has 4 patches, more than the 3",
        ),
        (["--images", "set", "--set", "data.valid_share=1.0"], "data.valid_share: expected"),
        (["--images", "set", "--model", "transformer"], "--images is for a model that classifies"),
        (["--images", "set", "--set", "train.metric=bleu"], "'loss' or 'accuracy', found"),
    ],
)
def test_mistakes_are_named_in_one_line(
    arguments: list[Any], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("notes.zip").write_text("no archive")
    assert command("train", *arguments, "--out", "run") == 2
    said = capfd.readouterr().err
    assert words in said and said.count("\n") == 1 and not Path("run").exists()


def test_a_run_that_diverges_leaves_no_bundle(capfd: pytest.CaptureFixture[str]) -> None:
    settings = ["--set", "learning_rate=1e9", "--set", "warmup=1", "--max-updates", 3]
    assert command("train", "--images", "set", "--out", "run", *TRAIN, *settings) == 2
    said = capfd.readouterr().err
    assert "the validation loss at update 3 is not finite; lower train.learning_rate" in said
    assert not Path("run", "config.json").exists() and "best so far" not in said


def test_validation_images_that_are_training_images_are_counted() -> None:
    said: list[str] = []
    images = {"images": ["set"], "valid_images": ["set/train"]}
    read_corpus(compose(flags={"data": images}), say=said.append)
    count = len(list(Path("set/train").glob("*/*")))
    assert any(f"{count} of {count} validation images are training images" in line for line in said)


def test_the_corpus_is_that_of_the_recipe() -> None:
    found = corpus(crop=2)
    assert found.size == 32 and len(found.sets.test) == 36 and found.longest_input == 4
    assert found.sha256() == corpus().sha256() != corpus(train_images=20).sha256()
    assert Path(found.origin(3)).is_file()
    recipe = compose(flags={"data": {"images": ["set"], "crop": 2}})
    assert found.completed(recipe).data.image_size == SIZE
    folder, archive = corpus().files[0], corpus(images=[str(packed(Path("set")))]).files[0]
    assert folder.lines == archive.lines == 72 and folder.sha256 != archive.sha256
    broken(Path("set/train/low/000.png"))
    assert corpus().files[0].sha256 != folder.sha256


LABELS = torch.tensor([0, 2, 1])
"""The classes with the larger shares."""


def batch(shares: list[float]) -> ImageBatch:
    first, second = F.one_hot(LABELS, 3), F.one_hot(torch.tensor([1, 2, 2]), 3)
    share = torch.tensor(shares)[:, None]
    return ImageBatch(torch.zeros(3, 3, 8, 8), share * first + (1 - share) * second)


def test_the_loss_is_the_cross_entropy_against_mixed_and_smoothed_classes() -> None:
    logits = torch.randn(3, 3)
    given = batch([0.7, 1.0, 0.6])
    loss = classification_loss(logits, given, 0.1)
    expected = F.cross_entropy(logits, given.targets, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss.sums["loss"], expected)
    assert loss.count == given.count == 3
    hits = int((logits.argmax(dim=-1) == LABELS).sum())
    assert loss.sums["accuracy"] == 100 * hits
    alone = classification_loss(logits, batch([1.0, 1.0, 1.0]), 0.1)
    text = label_smoothed_cross_entropy(logits, LABELS, 0.1)
    torch.testing.assert_close(alone.sums["loss"], text.loss)
    torch.testing.assert_close(alone.sums["nll"], text.nll)


@pytest.mark.parametrize("architecture", SIZES)
def test_sharded_weights_make_the_same_logits(architecture: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    settings = {"architecture": architecture, **SIZES[architecture], "dropout": 0.0}
    config = CONFIGS[architecture].model_validate(settings)
    model, images = build_classifier(config, ImageShape(8), 3), torch.randn(2, 3, 8, 8)
    torch.nn.init.normal_(model.head.weight)
    expected = model(images)
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        shard(model)
        found = model(images)
        torch.testing.assert_close(found, expected)
        found.square().sum().backward()
        assert all(each.grad is not None for each in model.parameters())
    finally:
        dist.destroy_process_group()


def test_an_untrained_model_is_not_usable_yet(capfd: pytest.CaptureFixture[str]) -> None:
    trained("run", "--max-updates", 1, "--set", "learning_rate=0.0000001")
    said = capfd.readouterr().out
    assert "is not above 33.3 %, the share of the most frequent class" in said
    assert np.isclose(crosshead.load("run")(picture("low", 1))[0][1], 1 / 3, atol=1e-3)


def test_every_model_of_images_has_presets() -> None:
    tasks = {"classification", "captioning", "multimodal"}
    names = {name for name, config in CONFIGS.items() if config.task in tasks}
    assert len(names) == 4 and all(presets.PRESETS[name] for name in names)
