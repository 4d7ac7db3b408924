"""The task of captioning: its data, and whole runs by the ordinary commands."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

import crosshead
from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.image_text import CaptioningTask, CaptioningValidator
from crosshead.addons.vision.models.captioner import CaptionerConfig
from crosshead.bundle.files import verify_bundle
from crosshead.cli import run
from crosshead.recipe.compose import compose
from crosshead.training.distributed import shard
from tests.tasks.reading import read_corpus
from tests.text.written import write, write_captions

DATA = ["--images", "images", "--captions", "captions.jsonl"]
SMALL = ["d_model=16", "d_ff=32", "encoder_layers=1", "decoder_layers=1", "heads=2", "patch_size=8"]
TRAIN = ["--threads", 1, "--set", "train.batch_tokens=256", "--set", "train.precision=float32"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_captions(tmp_path, 24, each=2)


def command(*arguments: Any) -> int:
    return run([str(each) for each in arguments])


def trained(out: str, *arguments: Any) -> list[dict[str, Any]]:
    small = [text for each in SMALL for text in ("--set", f"model.{each}")]
    assert command("train", *DATA, "--out", out, *small, *TRAIN, *arguments) == 0
    return [json.loads(line) for line in Path(out, "log.jsonl").read_text().splitlines()]


def weights(name: str) -> bytes:
    return Path(name, "model.safetensors").read_bytes()


def recipe(**data: Any) -> Any:
    data = {"images": ["images"], "captions": ["captions.jsonl"], **data}
    return compose(flags={"data": data})


def test_captions_are_learned_scored_and_written(capfd: pytest.CaptureFixture[str]) -> None:
    """A few images are learned by heart: each has its own caption at the end."""
    scenes = write_captions(Path(), 6)
    more = ["--valid-captions", "captions.jsonl", "--set", "learning_rate=0.02"]
    log = trained("run", "--max-updates", 150, *more, "--set", "decode.beam=2")
    assert log[-1]["exact_match,_%"] == 100 and log[-1]["bleu"] == pytest.approx(100)
    valid = next(row for row in log if row["kind"] == "valid")
    assert {"loss", "nll", "bleu", "exact"} <= valid.keys()
    shown = capfd.readouterr()
    assert "6 images with 6 captions to train on, 24 x 24 pixels in 9 patches" in shown.err
    describe = crosshead.load("run")
    assert isinstance(describe, ImageCaptioner)
    assert describe([each.pixels for each in scenes]) == [each.caption for each in scenes]
    assert not any(wrong for _, wrong in verify_bundle(Path("run")))
    assert "writes captions of images" in Path("run", "README.md").read_text()


def test_samples_are_shown_with_their_nearest_reference(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last caption of an image is as good as the first."""

    def last(self: CaptioningValidator, decode: object) -> list[str]:
        return [each[-1] for each in self.corpus.valid.references()]

    monkeypatch.setattr(CaptioningValidator, "outputs", last)
    trained("run", "--max-updates", 1)
    shown = capfd.readouterr().out
    assert "worst of 2 by chrF2 (100.0)" in shown and "nearest reference  here is a" in shown


def test_the_bands_of_translation_do_not_judge_captions(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def longer(self: CaptioningValidator, decode: object) -> list[str]:
        words = " ".join("abcdefghijkmnopqrstuvwxyz123")
        return [f"{each[-1]} {words}" for each in self.corpus.valid.references()]

    monkeypatch.setattr(CaptioningValidator, "outputs", longer)
    log = trained("run", "--max-updates", 1)
    shown = capfd.readouterr().out
    assert 5 < log[-1]["bleu"] < 30 and "train longer" not in shown.lower()


def test_a_run_that_is_resumed_is_one_that_was_not_interrupted() -> None:
    settings = ["--set", "schedule=inverse-sqrt", "--set", "warmup=3", "--set", "model.dropout=0.2"]
    trained("whole", "--max-updates", 8, *settings)
    trained("parts", "--max-updates", 4, *settings)
    assert command("train", "--resume", "--out", "parts", "--max-updates", 8) == 0
    assert weights("whole") == weights("parts")


@pytest.mark.slow
def test_parts_and_recomputed_layers_make_the_same_updates() -> None:
    first = trained("whole", "--max-updates", 4, "--set", "log_every=1")
    second = trained("parts", "--max-updates", 4, "--set", "log_every=1", "--set", "accumulate=3")
    losses = [[row["loss"] for row in log if row["kind"] == "train"] for log in (first, second)]
    assert len(losses[0]) == 4 and losses[0] == pytest.approx(losses[1], rel=1e-4)
    trained("recomputed", "--max-updates", 4, "--set", "train.recompute=true")
    assert weights("whole") == weights("recomputed")


@pytest.mark.slow
def test_it_is_trained_in_16_bits() -> None:
    wide = trained("wide", "--max-updates", 4)
    narrow = trained("narrow", "--max-updates", 4, "--set", "train.precision=bfloat16")
    ends = [next(row["loss"] for row in log if row["kind"] == "valid") for log in (wide, narrow)]
    assert ends[0] == pytest.approx(ends[1], rel=0.05) and ends[0] != ends[1]


@pytest.mark.slow
def test_bundles_are_averaged_packed_described_and_tuned(capfd: pytest.CaptureFixture[str]) -> None:
    trained("a", "--max-updates", 4)
    trained("b", "--max-updates", 4, "--from", "a", "--seed", 2)
    assert command("average", "a", "b", "--out", "mean") == 0
    assert command("pack", "mean", "--out", "mean.crosshead.zip") == 0
    first, second = (crosshead.load(name) for name in ("mean", "mean.crosshead.zip"))
    assert first("images/000.png") == second("images/000.png")
    capfd.readouterr()
    assert command("info", "mean") == 0
    said = capfd.readouterr().out
    assert "24 x 24 pixels, 3 x 3 patches" in said and "patches of 8" in said
    tune = ["train", *DATA, "--from", "a", "--max-updates", 2, *TRAIN, "--out", "other"]
    assert command(*tune, "--set", "data.image_size=16") == 2
    assert "data.image_size is 16, and the bundle has 24" in capfd.readouterr().err


def test_words_that_the_vocabulary_lacks_are_named_when_a_model_is_tuned(
    capfd: pytest.CaptureFixture[str],
) -> None:
    trained("a", "--max-updates", 2)
    assert "warning" not in capfd.readouterr().err
    captions = Path("captions.jsonl").read_text().replace("circle", "zebra")
    Path("zebras.jsonl").write_text(captions)
    files = ["--images", "images", "--captions", "zebras.jsonl"]
    tune = ["train", *files, "--from", "a", "--max-updates", 1, *TRAIN, "--out", "b"]
    assert command(*tune) == 0
    said = capfd.readouterr().err
    assert re.search(
        r"warning: \d+ of 44 captions have words that the vocabulary lacks, .*: '\S*zebra'\n", said
    )


@pytest.mark.slow
def test_a_bundle_of_an_unfinished_run_writes_captions() -> None:
    trained("run", "--max-updates", 3)
    for name in ("config.json", "model.safetensors", "README.md"):
        Path("run", name).unlink()
    assert isinstance(crosshead.load("run")("images/000.png"), str)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--captions", "captions.jsonl"], "give a folder of images (--images)"),
        (["--images", "no", "--captions", "captions.jsonl"], "no: no such file or folder"),
        (["--images", "images", "--captions", "no.jsonl"], "no.jsonl: no such file"),
        (["--images", "images", "--captions", "other.jsonl"], "no caption has a readable image"),
        ([*DATA, "--set", "model.patch_size=7"], "24 pixels are not divisible into patches of 7"),
        ([*DATA, "--set", "data.image_size=30"], "30 pixels are not divisible into patches of 4"),
        ([*DATA, "--set", "data.max_length=2"], "every caption has more than data.max_length 2"),
        ([*DATA, "--set", "tokenizer.joint=false"], "captions have one side"),
        ([*DATA, "--source", "a"], "--source is for a model that translates"),
        ([*DATA, "--model", "transformer"], "the model transformer for one that translates"),
        ([*DATA, "--set", "train.metric=mae"], "'loss' or 'bleu' or 'exact', found 'mae'"),
        ([*DATA, "--set", "train.batch_tokens=30"], "than a batch may hold (30)"),
    ],
)
def test_mistakes_are_named_in_one_line(
    arguments: list[Any], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    write(Path("other.jsonl"), '{"image": "gone.png", "caption": "a dog"}\n')
    assert command("train", *arguments, "--out", "run", "--max-updates", 1, "--threads", 1) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and not Path("run").exists()
    assert words in said


def test_what_is_left_out_is_said_counted_and_on_the_card(
    capfd: pytest.CaptureFixture[str],
) -> None:
    whole = Path("images/003.png").read_bytes()
    Path("images/003.png").write_bytes(whole[:80])
    with Path("captions.jsonl").open("a") as file:
        file.write('{"image": "gone.png", "caption": "a dog"}\n')
    trained("run", "--max-updates", 1)
    said = capfd.readouterr().err
    assert "left out: 1 broken image (images/003.png: not a whole image" in said
    assert "left out: 1 caption without an image (captions.jsonl:49 gone.png)" in said
    assert "captions without an image" in Path("run", "README.md").read_text()


def test_the_corpus_is_a_function_of_files_and_seed() -> None:
    corpus = read_corpus(recipe())
    assert (corpus.size, corpus.longest_input, corpus.image_size) == (44, 36, 24)
    assert corpus.sha256() == read_corpus(recipe()).sha256()
    assert corpus.sha256() != read_corpus(recipe(valid_size=1)).sha256()
    file, line = corpus.origin(3).split(":")
    row = json.loads(Path(file).read_text().splitlines()[int(line) - 1])
    assert file == "captions.jsonl" and row["caption"] in corpus.train.texts
    short = read_corpus(recipe(max_length=9))
    assert short.left_out() == {"too long": len(short.train.captions) - short.size}
    assert short.size and all(len(ids) <= 9 for _, ids in short.train_rows.examples)


def test_sharded_layers_are_those_of_the_model(tmp_path: Path) -> None:
    corpus = read_corpus(recipe())
    model: Any = corpus.kind.build(corpus.bundle_config(recipe(), corpus.longest_input))
    batch = corpus.train_rows.collate([0, 1])
    task = CaptioningTask()
    before = task.loss(model.eval(), batch, recipe().train).sums["loss"].item()
    assert isinstance(model.config, CaptionerConfig)
    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/meet")
    try:
        shard(model)
        after = task.loss(model, batch, recipe().train).sums["loss"].item()
    finally:
        dist.destroy_process_group()
    assert after == pytest.approx(before, rel=1e-5)
