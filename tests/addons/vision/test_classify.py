"""The verbs on images: train, classify, evaluate, attention."""

import json
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from crosshead.cli import run
from tests.addons.vision.drawn_images import CLASSES, broken, packed, picture, write_images
from tests.cli.tools import BUNDLE, Refused, output_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images of three classes and a classifier that knows them."""
    folder = tmp_path_factory.mktemp("classify")
    archive = packed(write_images(folder / "set", splits=("train", "test")))
    settings = ["--threads", "1", "--max-updates", "40", "--precision", "float32"]
    for each in (
        "model.patch_size=2", "model.d_model=16", "model.layers=2",
        "model.d_ff=32", "model.heads=2", "learning_rate=0.01", "train.batch_tokens=256",
        "data.crop=1", "data.flip=false", "data.mixup=0", "data.cutmix=0", "dropout=0.0",
    ):  # fmt: skip
        settings += ["--set", each]
    out = str(folder / "run")
    assert run(["train", "--images", str(archive), "--out", out, *settings]) == 0
    for label in CLASSES:
        Image.fromarray(picture(label, 7000)).save(folder / f"{label}.png")
    return folder


def test_each_image_gets_a_line_with_its_classes(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [folder / f"{label}.png" for label in CLASSES]
    lines = output_of(["classify", folder / "run", *files, files[0]], capfd).splitlines()
    assert len(lines) == 4 and lines[0] == lines[3]
    for line, file in zip(lines, files, strict=False):
        name, classes = line.split("\t")
        assert name == str(file) and len(classes.split(", ")) == 3
        assert classes.split()[0] == file.stem


def test_answers_are_json_lines(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    typed = ["classify", folder / "run", folder / "low.png", "--jsonl", "--top", 2]
    [found] = map(json.loads, output_of(typed, capfd).splitlines())
    assert found["image"] == str(folder / "low.png") and len(found["classes"]) == 2
    assert found["classes"][0]["class"] == "low"
    assert found["classes"][0]["probability"] > found["classes"][1]["probability"]


def test_a_broken_image_is_one_line_and_the_others_are_answered(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged = broken(Path(shutil.copy(folder / "low.png", tmp_path / "damaged.png")))
    bomb = tmp_path / "bomb.png"
    Image.new("1", (20_000, 10_000)).save(bomb)
    files = [damaged, folder / "high.png", tmp_path / "no.png", bomb]
    assert run(["classify", str(folder / "run"), *map(str, files)]) == 2
    shown = capfd.readouterr()
    assert shown.out.count("\n") == 1 and shown.out.startswith(str(folder / "high.png"))
    first, second, third = shown.err.splitlines()
    assert "damaged.png: not a whole image" in first and "no.png: no such file" in second
    assert "bomb.png: not a whole image (DecompressionBombError" in third
    assert run(["classify", str(folder / "run"), *map(str, files), "--jsonl"]) == 2
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["image"] for row in rows] == list(map(str, files))
    assert ["error" in row for row in rows] == [True, False, True, True]


def test_classes_are_scored_with_their_confusions(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("crosshead.cli.terminal._QUIET", 0.0)
    typed = ["evaluate", folder / "run", "--images", folder / "set.zip"]
    head, score, _, titles, *rows = output_of(typed, capfd).splitlines()
    assert head.split()[:2] == ["metric", "score"] and "images:36|split:test" in score
    assert float(score.split()[2]) > 90
    assert titles.split() == ["class", "taken", "for", "images"]
    wrong = sum(int(row.split()[-1]) for row in rows)
    assert float(score.split()[2]) == pytest.approx(100 * (1 - wrong / 36), abs=0.1)
    lines = [json.loads(line) for line in output_of([*typed, "--jsonl"], capfd).splitlines()]
    assert lines[0]["metric"] == "accuracy, %" and lines[0]["low"] < lines[0]["high"]
    assert [line["class"] for line in lines[1:]] == ["high", "left", "low"]
    assert sum(sum(line["predicted"].values()) for line in lines[1:]) == 36
    part = shutil.copytree(folder / "set" / "test", tmp_path / "part")
    broken(part / "low" / "003.png")
    assert run(["evaluate", str(folder / "run"), "--images", str(part)]) == 0
    shown = capfd.readouterr()
    assert "images:35|split:all" in shown.out and "100%  35 of 35 images" in shown.err
    assert "left out: 1 broken image (" in shown.err and "low/003.png: not a" in shown.err


def test_images_of_training_are_named_as_such(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = write_images(tmp_path / "seen", each=4)
    settings = ["--max-updates", "1", "--threads", "1", "--set", "model.patch_size=2"]
    out = str(tmp_path / "run")
    assert run(["train", "--images", str(seen), "--out", out, *settings]) == 0
    capfd.readouterr()

    def notes(bundle: object, images: Path) -> str:
        assert run(["evaluate", str(bundle), "--images", str(images)]) == 0
        return capfd.readouterr().err

    used = "the training of this model used these data"
    assert f"seen: {used}" in notes(out, seen)
    for other in (packed(seen), folder / "set" / "train"):
        assert used not in notes(out, other)
    assert notes(out, folder / "set" / "test") == notes(out, folder / "set") == ""


def test_confusions_are_listed(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = shutil.copytree(folder / "set" / "test" / "low", tmp_path / "set" / "high").parent
    text = output_of(["evaluate", folder / "run", "--images", wrong], capfd)
    assert "class  taken for  images\nhigh   low" in text


def test_the_attention_over_an_image_is_drawn(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    typed = ["attention", folder / "run", folder / "low.png", "--out", tmp_path / "a.svg"]
    assert "encoder attention over" in output_of(typed, capfd)
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn.count("head 1 (") == 2 and "layer 2" in drawn  # a row for each layer
    output_of([*typed, "--kind", "rollout"], capfd)
    assert "up to layer 2" in (tmp_path / "a.svg").read_text()
    assert "no attention of kind 'cross' over an image" in refused(*typed, "--kind", "cross")
    assert "takes no target" in refused(*typed, "--target", "x")
    assert "no.png: no such file" in refused(*typed[:2], "no.png", *typed[3:])


def test_other_models_and_other_data_are_refused(folder: Path, refused: Refused) -> None:
    images = ["--images", folder / "set.zip"]
    assert "translates" in refused("classify", BUNDLE, folder / "low.png")
    assert "translates" in refused("evaluate", BUNDLE, *images)
    assert "--text is not for --images" in refused(
        "evaluate", folder / "run", *images, "--text", "a.txt"
    )
    assert "classifies images" in refused(
        "evaluate", folder / "run", "--text", folder / "run" / "README.md"
    )
    assert "classify with: crosshead classify" in refused(
        "forecast", folder / "run", "--series", "a.csv"
    )


def test_a_file_name_that_is_not_utf8_is_escaped(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.png")
    shutil.copy(folder / "low.png", odd)
    lines = output_of(["classify", folder / "run", odd], capfd)
    assert lines.startswith(f"{tmp_path}/caf\\udce9.png\tlow")
    found = json.loads(output_of(["classify", folder / "run", odd, "--jsonl"], capfd))
    assert found["image"] == odd
