"""The verbs on images with captions: train, caption, evaluate, attention."""

import json
from pathlib import Path

import pytest

from crosshead.cli import run
from tests.cli.tools import BUNDLE, Refused, output_of
from tests.text.written import write, write_captions


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with scenes, and a captioner that has hardly learned anything."""
    folder = tmp_path_factory.mktemp("captions")
    write_captions(folder, 12, each=2)
    settings = ["--max-updates", "3", "--threads", "1", "--set", "patch_size=8"]
    settings += ["--set", "d_model=16", "--set", "d_ff=16", "--set", "decode.beam=2"]
    data = ["--images", str(folder / "images"), "--captions", str(folder / "captions.jsonl")]
    assert run(["train", *data, "--out", str(folder / "run"), *settings]) == 0
    return folder


def test_each_image_has_a_line(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    images = [folder / "images" / f"{number:03d}.png" for number in range(3)]
    lines = output_of(["caption", folder / "run", *images], capfd).splitlines()
    assert len(lines) == 3
    typed = ["caption", folder / "run", *images, "--jsonl", "--beam", 1]
    rows = [json.loads(line) for line in output_of(typed, capfd).splitlines()]
    assert [row["image"] for row in rows] == list(map(str, images))
    assert rows[0].keys() == {"image", "caption", "score"}
    file = tmp_path / "captions.txt"
    assert output_of(["caption", folder / "run", *images, "--output", file], capfd) == ""
    assert file.read_text().splitlines() == lines


def test_tokenised_captions_bring_one_warning(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in (folder / "captions.jsonl").read_text().splitlines()]
    lines = [json.dumps({**row, "caption": f"{row['caption']} ."}) for row in rows]
    file = write(tmp_path / "tokenised.jsonl", "\n".join(lines) + "\n")
    data = ["--images", folder / "images", "--captions", file]
    assert run(list(map(str, ["evaluate", folder / "run", *data]))) == 0
    assert capfd.readouterr().err.count(f"warning: {file}: tokenised text") == 1
    more = ["--out", tmp_path / "run", "--valid-captions", file, "--max-updates", 1]
    more += ["--threads", 1, "--set", "patch_size=8", "--set", "d_model=16", "--set", "d_ff=16"]
    assert run(list(map(str, ["train", *data, *more]))) == 0
    assert capfd.readouterr().err.count(f"warning: {file}: tokenised text") == 1


def test_each_of_the_best_captions_has_a_line(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    images = [folder / "images" / f"{number:03d}.png" for number in range(2)]
    typed = ["caption", folder / "run", *images, "--n-best", 2]
    parts = [line.split(" ||| ") for line in output_of(typed, capfd).splitlines()]
    assert [part[0] for part in parts] == [str(image) for image in images for _ in range(2)]
    rows = [json.loads(line) for line in output_of([*typed, "--jsonl"], capfd).splitlines()]
    assert [[row["image"], row["caption"], f"{row['score']:.4f}"] for row in rows] == parts
    scores = [row["score"] for row in rows]
    assert scores[0] >= scores[1] and scores[2] >= scores[3]


@pytest.mark.slow
def test_the_maps_of_a_head_are_drawn(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    image = folder / "images" / "000.png"
    heads = tmp_path / "heads.png"
    typed = ["attention", folder / "run", image, "--target", "a red circle", "--out", heads]
    typed += ["--layer", 1, "--head", 1]
    assert "cross-attention" in output_of(typed, capfd)
    assert heads.read_bytes().startswith(b"\x89PNG")


def test_a_broken_image_is_named_and_the_others_have_captions(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole, broken = folder / "images" / "000.png", tmp_path / "broken.png"
    broken.write_bytes(whole.read_bytes()[:60])
    code = run(["caption", str(folder / "run"), str(broken), str(whole)])
    said = capfd.readouterr()
    first, second = said.out.splitlines()  # a line for each image, so that they stay aligned
    assert code == 2 and not first and second
    [line] = said.err.splitlines()
    assert "broken.png: not a whole image" in line
    assert run(["caption", str(folder / "run"), str(broken), str(whole), "--jsonl"]) == 2
    error, caption = map(json.loads, capfd.readouterr().out.splitlines())
    assert error.keys() == {"image", "error"} and "not a whole image" in error["error"]
    assert caption["image"] == str(whole)
    assert run(["caption", str(folder / "run"), str(broken)]) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_captions_are_scored_against_all_references(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = ["--images", folder / "images", "--captions", folder / "captions.jsonl"]
    text = output_of(["evaluate", folder / "run", *data], capfd)
    assert [line.split()[0] for line in text.splitlines()] == ["metric", "BLEU", "chrF2", "exact"]
    assert "nrefs:2" in text
    other = write(folder / "other.jsonl", (folder / "captions.jsonl").read_text() + "\n")
    for file, said in ((folder / "captions.jsonl", True), (other, False)):
        typed = ["evaluate", folder / "run", *data[:3], file]
        assert run(list(map(str, typed))) == 0
        used = "captions.jsonl: the training of this model used these data"
        assert (used in capfd.readouterr().err) == said
    lines = output_of(["evaluate", folder / "run", *data, "--jsonl", "--metrics", "ter"], capfd)
    rows = [json.loads(line) for line in lines.splitlines()]
    assert [row["metric"] for row in rows] == ["TER", "exact match, %"]


def test_mistakes_are_refused_in_one_line(folder: Path, refused: Refused) -> None:
    model, image = folder / "run", folder / "images" / "000.png"
    data = ["--images", folder / "images", "--captions", folder / "captions.jsonl"]
    assert "writes captions of images" in refused("translate", model, image)
    assert "translate with: crosshead translate" in refused("caption", BUNDLE, image)
    assert "--captions is not for" in refused("evaluate", model, *data[2:])
    assert "writes captions of images" in refused("evaluate", model, *data[:2])
    assert "--text is not for --images with --captions" in refused(
        "evaluate", model, *data, "--text", image
    )
    assert "writes captions of images" in refused("evaluate", model, "--text", data[3])
    assert "give --beam 3" in refused("caption", model, image, "--n-best", 3)
    heads = ["--target", "", "--out", folder / "no.png"]
    assert "the target is empty" in refused("attention", model, image, *heads)
    assert "give its files: " in refused("attention", model, folder / "images", *heads[2:])
    assert "is the input file" in refused("caption", model, image, "--output", image)
    assert "another --out" in refused("attention", model, image, "--out", image)
