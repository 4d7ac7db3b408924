"""The verbs on sentences beside images: train, translate, evaluate, attention."""

import json
import subprocess
from pathlib import Path

import pytest

from crosshead.cli import run
from tests.cli.tools import BUNDLE, Refused, environment, output_of, preloaded_command
from tests.text.written import write, write_image_pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs beside images, and a model that has hardly learned anything."""
    folder = tmp_path_factory.mktemp("pairs")
    pairs = write_image_pairs(folder, 12)
    lines = [f"{number:03d}.png\t{pair.source}" for number, pair in enumerate(pairs[:3])]
    write(folder / "input.tsv", "\n".join(lines) + "\n")
    settings = ["--max-updates", "3", "--threads", "1", "--set", "patch_size=8"]
    settings += ["--set", "d_model=16", "--set", "d_ff=16", "--set", "decode.beam=2"]
    settings += ["--set", "decode.max_extra=3", "--set", "precision=float32"]
    data = ["--images", str(folder / "images"), "--pairs", str(folder / "pairs.jsonl")]
    assert run(["train", *data, "--out", str(folder / "run"), *settings]) == 0
    return folder


def test_each_line_has_a_line(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    typed = ["translate", folder / "run", folder / "input.tsv", "--images", folder / "images"]
    lines = output_of(typed, capfd).splitlines()
    assert len(lines) == 3
    rows = [json.loads(line) for line in output_of([*typed, "--jsonl"], capfd).splitlines()]
    assert [row["translation"] for row in rows] == lines
    assert rows[0]["source"] == (folder / "input.tsv").read_text().splitlines()[0]
    best = output_of([*typed, "--n-best", 2], capfd).splitlines()
    assert [line.split(" ||| ")[0] for line in best] == list("112233")
    gone = write(folder / "gone.tsv", "gone.png\ta red sign\n\n")
    typed = ["translate", folder / "run", gone, "--images", folder / "images"]
    assert run([*map(str, typed), "--n-best", "2"]) == 2
    assert capfd.readouterr().out.splitlines()[0] == "1 |||  ||| nan"
    assert run(list(map(str, typed))) == 2
    # A line is an image and a sentence.
    assert "is read as one sentence" not in capfd.readouterr().err
    assert run([*map(str, typed), "--jsonl"]) == 2
    unread, blank = map(json.loads, capfd.readouterr().out.splitlines())
    assert (unread["log_prob"], unread["score"], unread["flags"]) == (None, None, ["unread"])
    assert (blank["score"], blank["flags"]) == (0.0, [])
    best = output_of(
        ["translate", folder / "run", folder / "input.tsv", *typed[3:], "--n-best", 2], capfd
    )
    best = best.splitlines()
    assert [line.split(" ||| ")[1] for line in best[::2]] == [line.strip() for line in lines]


@pytest.mark.slow
def test_lines_of_a_pipe_keep_their_places(folder: Path) -> None:
    """Blank lines, missing images, broken images and lines without a tab have empty lines."""
    whole = (folder / "images" / "000.png").read_bytes()
    write(folder / "images" / "torn.png", whole[:60])
    sentence = "a red sign above a blue cross"
    given = [f"000.png\t{sentence}", "", f"gone.png\t{sentence}", f"torn.png\t{sentence}", sentence]
    given += [f"001.png\t{sentence}", "002.png\t"]
    command = [*preloaded_command(), "translate", folder / "run", "--images", folder / "images"]
    done = subprocess.run(
        list(map(str, command)),
        input="\n".join(given),
        capture_output=True,
        text=True,
        env=environment(),
    )
    (folder / "images" / "torn.png").unlink()
    assert done.returncode == 2
    lines = done.stdout.split("\n")
    assert len(lines) == 8 and [number for number, line in enumerate(lines, 1) if line] == [1, 6]
    said = [line for line in done.stderr.splitlines() if ": warning: " not in line]  # of odd text
    gone, torn, no_tab, last = said
    assert "line 3: 'gone.png': no such image in" in gone
    assert "line 4: " in torn and "images/torn.png: not a whole image" in torn
    assert "line 5: expected `image<TAB>sentence`" in no_tab
    assert "3 lines got no translation" in last


def test_scores_have_a_row_for_the_right_and_for_shuffled_images(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = ["--images", folder / "images", "--pairs", folder / "pairs.jsonl"]
    text = output_of(["evaluate", folder / "run", *data], capfd)
    rows = [line.split() for line in text.split("\n\n")[0].splitlines()]
    used = "pairs.jsonl: the training of this model used these data"
    assert run(list(map(str, ["evaluate", folder / "run", *data]))) == 0
    assert used in capfd.readouterr().err
    names = [("BLEU", "right"), ("BLEU", "shuffled"), ("chrF2", "right"), ("chrF2", "shuffled")]
    assert [(metric, images) for metric, images, *_ in rows[1:]] == names
    lines = output_of(["evaluate", folder / "run", *data, "--jsonl", "--metrics", "ter"], capfd)
    found = [json.loads(line) for line in lines.splitlines()]
    assert [(row["system"], row["metric"]) for row in found] == [
        ("right images", "TER"), ("shuffled images", "TER"),
    ]  # fmt: skip
    assert 0 <= found[1]["p_value"] <= 1


def test_what_is_left_out_of_a_test_set_is_said(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = (folder / "pairs.jsonl").read_text().splitlines()
    lines.append('{"image": "gone.png", "source": "a dog", "target": "ein Hund"}')
    file = write(tmp_path / "some.jsonl", "\n".join(lines) + "\n")
    typed = ["evaluate", folder / "run", "--images", folder / "images", "--pairs", file]
    assert run(list(map(str, typed))) == 0
    assert "left out: 1 pair without an image" in capfd.readouterr().err


@pytest.mark.slow
def test_attention_is_drawn(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = f"{folder / 'images' / '000.png'}\ta red sign above a blue cross"
    typed = ["attention", folder / "run", text, "--layer", 1, "--head", 1]
    for kind, name in (("image", "attention to the image"), ("cross", "cross-attention")):
        picture = tmp_path / f"{kind}.png"
        more = ["--out", picture, "--kind", kind, *(["--target", "ein"] if kind == "cross" else [])]
        assert name in output_of([*typed, *more], capfd)
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_refused_in_one_line(folder: Path, tmp_path: Path, refused: Refused) -> None:
    model, lines = folder / "run", folder / "input.tsv"
    images = ["--images", folder / "images"]
    pairs = ["--pairs", folder / "pairs.jsonl"]
    assert "translates sentences beside images" in refused("translate", model, lines)
    assert "translate with: crosshead translate" in refused("translate", BUNDLE, lines, *images)
    assert "no such file or folder" in refused("translate", model, lines, "--images", "nowhere")
    assert "translates sentences beside images" in refused("evaluate", model, *pairs)
    said = refused("evaluate", model, *images, *pairs, "--fields", "source,target")
    assert "--fields is not for --images with --pairs" in said
    assert "translates sentences beside images" in refused("evaluate", model, *images)
    captions = ["--captions", folder / "pairs.jsonl"]
    assert "is not for" in refused("evaluate", model, *images, *pairs, *captions)
    assert "--text is not for --images with --pairs" in refused(
        "evaluate", model, *images, *pairs, "--text", lines
    )
    one = write(tmp_path / "one.jsonl", (folder / "pairs.jsonl").read_text().splitlines()[0])
    assert "two different images" in refused("evaluate", model, *images, "--pairs", one)
    text = refused("attention", model, "a red sign", "--out", tmp_path / "a.png")
    assert "the file of an image, a tab and a sentence" in text
