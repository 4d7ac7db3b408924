"""The task of multimodal translation: its data, and whole runs by the ordinary commands."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

import crosshead
from crosshead.addons.vision.image_text import MultimodalTask
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.bundle.files import verify_bundle
from crosshead.cli import run
from crosshead.recipe.compose import compose
from crosshead.system.progress import Silent
from crosshead.training.distributed import shard
from tests.tasks.reading import read_corpus
from tests.text.written import write, write_image_pairs

DATA = ["--images", "images", "--pairs", "pairs.jsonl"]
TARGETS = [f"da ist ein {noun} im Bild" for noun in ("Kreis", "Dreieck", "Quadrat", "Kreuz")]
SHAPE = {"d_model": 16, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, "heads": 2}
SMALL = {**SHAPE, "patch_size": 8}
TRAIN = ["--threads", 1, "--set", "train.batch_tokens=256", "--set", "train.precision=float32"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_image_pairs(tmp_path, 24)


def command(*arguments: Any) -> int:
    return run([str(each) for each in arguments])


def trained(out: str, *arguments: Any) -> list[dict[str, Any]]:
    small = [text for key, value in SMALL.items() for text in ("--set", f"model.{key}={value}")]
    assert command("train", *DATA, "--out", out, *small, *TRAIN, *arguments) == 0
    return [json.loads(line) for line in Path(out, "log.jsonl").read_text().splitlines()]


def weights(name: str) -> bytes:
    return Path(name, "model.safetensors").read_bytes()


def recipe(**data: Any) -> Any:
    data = {"images": ["images"], "pairs": ["pairs.jsonl"], **data}
    return compose(flags={"data": data})


@pytest.mark.slow
def test_pairs_are_learned_scored_and_written(capfd: pytest.CaptureFixture[str]) -> None:
    """Pairs are learned by heart, and of one sentence the image alone tells the translations."""
    pairs = write_image_pairs(Path(), 4)
    rows = [json.loads(line) for line in Path("pairs.jsonl").read_text().splitlines()]
    for row, target in zip(rows, TARGETS, strict=True):
        row |= {"source": "a sign", "target": target}
    write(Path("pairs.jsonl"), "".join(json.dumps(row) + "\n" for row in rows))
    more = ["--valid-pairs", "pairs.jsonl", "--set", "learning_rate=0.01", "--set", "decode.beam=2"]
    more += ["--set", "model.d_model=32"]
    more += ["--set", "dropout=0"]
    log = trained("run", "--max-updates", 300, *more)
    assert log[-1]["exact_match,_%"] == 100 and log[-1]["bleu"] == pytest.approx(100)
    valid = next(row for row in log if row["kind"] == "valid")
    assert {"loss", "nll", "bleu", "exact"} <= valid.keys()
    shown = capfd.readouterr()
    assert "4 images with 4 pairs to train on, 24 x 24 pixels in 9 patches" in shown.err
    translate = crosshead.load("run")
    assert isinstance(translate, MultimodalTranslator)
    assert translate([(each.pixels, "a sign") for each in pairs]) == TARGETS
    assert not any(wrong for _, wrong in verify_bundle(Path("run")))
    assert "translates sentences beside images" in Path("run", "README.md").read_text()


@pytest.mark.slow
def test_a_run_that_is_resumed_is_one_that_was_not_interrupted() -> None:
    settings = ["--set", "schedule=inverse-sqrt", "--set", "warmup=3", "--set", "model.dropout=0.2"]
    separate = ["--set", "tokenizer.joint=false", "--set", "model.tie=two-way"]
    trained("whole", "--max-updates", 8, *settings, *separate)
    trained("parts", "--max-updates", 4, *settings, *separate)
    assert command("train", "--resume", "--out", "parts", "--max-updates", 8) == 0
    assert weights("whole") == weights("parts")
    assert {"source.json", "target.json"} <= {path.name for path in Path("parts").iterdir()}


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
    pair = "images/000.png", "a red sign above a blue cross"
    assert first(pair) == second(pair)
    capfd.readouterr()
    assert command("info", "mean") == 0
    said = capfd.readouterr().out
    assert "24 x 24 pixels, 3 x 3 patches" in said and "1 over patches of 8" in said
    tune = ["train", *DATA, "--from", "a", "--max-updates", 2, *TRAIN, "--out", "other"]
    assert command(*tune, "--set", "data.image_size=16") == 2
    assert "data.image_size is 16, and the bundle has 24" in capfd.readouterr().err


def test_it_is_trained_from_python() -> None:
    found = crosshead.train(
        out="run", pairs="pairs.jsonl", data={"images": ["images"]}, model=SMALL,
        train={"max_updates": 2, "threads": 1, "precision": "float32"}, display=Silent(),
    )  # fmt: skip
    assert found.progress.update == 2
    assert isinstance(crosshead.load("run"), MultimodalTranslator)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--images", "no", "--pairs", "pairs.jsonl"], "no: no such file or folder"),
        (["--images", "images", "--pairs", "no.jsonl"], "no.jsonl: no such file"),
        (["--images", "images", "--pairs", "other.jsonl"], "no pair has a readable image"),
        (["--images", "images", "--pairs", "text.jsonl"], "text.jsonl:1: no field 'image'"),
        (["--pairs", "pairs.jsonl", "--model", "multimodal"], "give a folder of images (--images)"),
        ([*DATA, "--set", "model.patch_size=7"], "24 pixels are not divisible into patches of 7"),
        ([*DATA, "--set", "data.image_size=30"], "30 pixels are not divisible into patches of 4"),
        ([*DATA, "--set", "data.max_length=2"], "every pair has more than data.max_length 2"),
        ([*DATA, "--set", "tokenizer.joint=false"], "needs one vocabulary for both sides"),
        ([*DATA, "--fields", "source,target"], "--fields is for a model that"),
        ([*DATA, "--captions", "pairs.jsonl"], "one that writes captions"),
        ([*DATA, "--model", "transformer"], "--images is for a model that"),
        ([*DATA, "--set", "train.metric=mae"], "'loss' or 'bleu' or 'exact', found 'mae'"),
        ([*DATA, "--set", "train.batch_tokens=30"], "than a batch may hold (30)"),
    ],
)
def test_mistakes_are_named_in_one_line(
    arguments: list[Any], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    write(Path("other.jsonl"), '{"image": "gone.png", "source": "a dog", "target": "ein Hund"}\n')
    write(Path("text.jsonl"), '{"source": "a dog", "target": "ein Hund"}\n')
    assert command("train", *arguments, "--out", "run", "--max-updates", 1, "--threads", 1) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and not Path("run").exists()
    assert words in said, said


def test_what_is_left_out_is_said_counted_and_on_the_card(
    capfd: pytest.CaptureFixture[str],
) -> None:
    whole = Path("images/003.png").read_bytes()
    Path("images/003.png").write_bytes(whole[:80])
    with Path("pairs.jsonl").open("a") as file:
        file.write('{"image": "gone.png", "source": "a dog", "target": "ein Hund"}\n')
    trained("run", "--max-updates", 1)
    said = capfd.readouterr().err
    assert "left out: 1 broken image (images/003.png: not a whole image" in said
    assert "left out: 1 pair without an image (pairs.jsonl:25 gone.png)" in said
    assert "pairs without an image" in Path("run", "README.md").read_text()


def test_the_corpus_is_a_function_of_files_and_seed() -> None:
    corpus = read_corpus(recipe())
    assert (corpus.size, corpus.image_size) == (22, 24)
    longest = max(len(source) for source, _ in corpus.train_rows.examples)
    assert corpus.longest_input == longest
    assert int(corpus.lengths[:, 0].max()) == longest + 1 + 36  # the end, and the patches
    assert corpus.sha256() == read_corpus(recipe()).sha256()
    assert corpus.sha256() != read_corpus(recipe(valid_size=1)).sha256()
    file, line = corpus.origin(3).split(":")
    row = json.loads(Path(file).read_text().splitlines()[int(line) - 1])
    assert row["source"] in corpus.train.sources
    short = read_corpus(recipe(max_length=9))
    assert short.left_out() == {"too long": len(short.train.captions) - short.size}
    assert short.size and all(len(side) <= 9 for pair in short.train_rows.examples for side in pair)


def test_the_source_counts_in_the_checksum() -> None:
    before = read_corpus(recipe(valid_pairs=["pairs.jsonl"])).sha256()
    text = Path("pairs.jsonl").read_text()
    source = json.loads(text.splitlines()[0])["source"]
    twisted = " ".join(reversed(source.split()))
    write(Path("pairs.jsonl"), text.replace(f'"{source}"', f'"{twisted}"'))
    assert read_corpus(recipe(valid_pairs=["pairs.jsonl"])).sha256() != before


def test_sharded_layers_are_those_of_the_model(tmp_path: Path) -> None:
    corpus = read_corpus(recipe())
    model: Any = corpus.kind.build(corpus.bundle_config(recipe(), corpus.longest_input))
    batch = corpus.train_rows.collate([0, 1])
    task = MultimodalTask()
    before = task.loss(model.eval(), batch, recipe().train).sums["loss"].item()
    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/meet")
    try:
        shard(model)
        after = task.loss(model, batch, recipe().train).sums["loss"].item()
    finally:
        dist.destroy_process_group()
    assert after == pytest.approx(before, rel=1e-5)
