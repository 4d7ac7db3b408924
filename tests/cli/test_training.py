import json
import resource
import shutil
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

from crosshead.cli import run
from crosshead.tasks.registry import load_bundle
from tests.cli.tools import (
    BUNDLE,
    COMMAND,
    ROOT,
    TINY,
    Refused,
    environment,
    output_of,
    preloaded_command,
    write_corpus,
)
from tests.parameters import mostly_slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 20 updates."""
    folder = tmp_path_factory.mktemp("cli")
    source, target = write_corpus(folder)
    out = folder / "run"
    files = ["--source", str(source), "--target", str(target)]
    assert run(["train", *files, "--out", str(out), "--max-updates", "20", *TINY]) == 0
    return out


def test_help_names_the_recipes_that_ship(capfd: pytest.CaptureFixture[str]) -> None:
    names = sorted(path.stem for path in (ROOT / "crosshead" / "recipe" / "shipped").glob("*.toml"))
    said = "".join(output_of(["train", "--help"], capfd).split())
    assert f"orarecipeofthepackage:{','.join(names)}." in said


def test_help_of_a_group_is_alone_and_an_unknown_group_is_refused(
    capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    said = output_of(["train", "--help", "run"], capfd)
    assert "--max-updates" in said and "--pairs" not in said and "Examples" not in said
    assert "choose one of pairs, text, " in refused("train", "--help", "serie")


def test_training_leaves_a_bundle_with_scores(
    trained: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    load_bundle(trained)
    assert "tok:13a" in output_of(["info", trained], capfd)
    assert (trained / "training.png").read_bytes().startswith(b"\x89PNG")
    assert "source.txt\t163\tempty side" in (trained / "left-out.tsv").read_text()


def test_a_run_is_resumed_with_its_recipe_and_a_new_budget(
    trained: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(trained, out)
    report = output_of(["train", "--resume", "--out", out, "--max-updates", 25], capfd)
    assert "max_updates 25 is reached" in report
    assert "empty side" in report
    assert f"crosshead translate {out}" in report


def test_a_full_disk_is_one_line_and_leaves_the_earlier_checkpoints(
    trained: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(trained, out)
    before = sorted((out / "checkpoints").rglob("*"))
    # No file may grow beyond this, as if that were what is left.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 1024, limits[1]))
    try:
        code = run(["train", "--resume", "--out", str(out), "--max-updates", "25"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = capfd.readouterr().err
    assert code == 2
    assert "Traceback" not in said
    assert "cannot be written: File too large" in said.splitlines()[-1]
    assert sorted((out / "checkpoints").rglob("*")) == before
    load_bundle(out)
    output_of(["train", "--resume", "--out", out, "--max-updates", 25], capfd)


def test_the_same_command_with_resume_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = write_corpus(tmp_path)
    (tmp_path / "r.toml").write_text("[train]\nprecision = 'auto'\nmax_epochs = 50\n")
    out = tmp_path / "run"
    command = ["train", tmp_path / "r.toml", "--source", source, "--target", target, "--out", out]
    command += ["--preset", "small", "--max-updates", 5, *TINY, "--set", "precision=auto"]
    output_of(command, capfd)
    assert run([str(each) for each in [*command, "--mix", out, "--resume"]]) == 0
    captured = capfd.readouterr()
    assert "max_updates 5 is reached" in captured.out
    assert "--preset, --from and --mix are ignored" in captured.err
    assert "max_updates 7 is reached" in output_of(
        [*command, "--resume", "--max-updates", 7], capfd
    )


def test_a_resumed_run_refuses_another_recipe(
    trained: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[train]\nseed = 5\n")
    assert run(["train", str(other), "--resume", "--out", str(trained)]) == 2
    assert "train.seed is 5, but the run in" in capfd.readouterr().err


def test_fine_tuning_starts_from_a_bundle(
    trained: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = write_corpus(tmp_path)
    out = tmp_path / "tuned"
    flags = ["--from", trained, "--max-updates", 5, "--source", source, "--target", target]
    output_of(["train", "--out", out, *flags, *TINY], capfd)
    first, tuned = load_bundle(trained), load_bundle(out)
    assert first.config.model.d_model == tuned.config.model.d_model
    assert first.source_tokenizer.encode("abc") == tuned.source_tokenizer.encode("abc")
    other = [*flags, "--preset", "big", "--set", "model.d_model=32"]
    assert run([str(each) for each in ["train", "--out", tmp_path / "other", *other]]) == 2
    assert "model.d_model is 32, but the bundle" in capfd.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_note_says_which_settings_a_preset_sets_in_fine_tuning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = ["--source", str(tmp_path / "no.en"), "--target", str(tmp_path / "no.de")]
    command = ["train", "--from", str(BUNDLE), *files, "--out", str(tmp_path / "run")]
    assert run([*command, "--preset", "small"]) == 2  # after the note, the files are missing
    said = capfd.readouterr().err
    assert f"the model and tokenizer come from {BUNDLE}; the preset sets only the training" in said


def test_pairs_of_named_fields_and_a_recipe_train_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = write_corpus(tmp_path)
    rows = zip(source.read_text().split("\n"), target.read_text().split("\n"), strict=True)
    objects = [json.dumps({"from": left, "to": right}) for left, right in rows if left]
    (tmp_path / "pairs.jsonl").write_text("\n".join(objects) + "\n")
    (tmp_path / "recipe.toml").write_text("[train]\nmax_updates = 5\nseed = 3\n")
    flags = ["--pairs", tmp_path / "pairs.jsonl", "--fields", "from,to", "--seed", 4]
    output_of(["train", tmp_path / "recipe.toml", "--out", tmp_path / "run", *flags, *TINY], capfd)
    resolved = (tmp_path / "run/recipe.toml").read_text()
    assert "seed = 4" in resolved and "max_updates = 5" in resolved


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    mostly_slow(
        [
            (signal.SIGINT, 130),
            (signal.SIGTERM, 143),
            (signal.SIGHUP, 129),
            (signal.SIGUSR1, 138),
            (signal.SIGXCPU, 152),
        ],
        [(signal.SIGTERM, 143)],
    ),
)
def test_a_signal_saves_a_checkpoint(number: int, code: int, tmp_path: Path) -> None:
    source, target = write_corpus(tmp_path)
    files = ["--source", source, "--target", target, "--out", tmp_path / "run"]
    budget = ["--max-minutes", "5", "--set", "max_epochs=100000", "--set", "patience=0"]
    command = [*COMMAND, "train", *files, *budget, *TINY]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) as process:
        assert process.stderr
        while b"update 10 " not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(0.1)
        process.send_signal(number)
        assert process.wait(timeout=60) == code
        said = process.stderr.read().decode()
    assert "Traceback" not in said
    assert f"crosshead train --resume --out {tmp_path / 'run'}" in said
    assert list((tmp_path / "run/checkpoints").glob("update-*"))
    assert not (tmp_path / "run/config.json").exists()


def test_a_reader_that_leaves_stops_training_with_a_checkpoint(tmp_path: Path) -> None:
    source, target = write_corpus(tmp_path)
    out = tmp_path / "run"
    files = ["--source", source, "--target", target, "--out", out, "--preset", "tiny"]
    # With `auto`, the reader would leave before there is a run to save.
    script = '"$@" 2>&1 | head -n 5; echo ${PIPESTATUS[0]}'
    budget = ["--max-minutes", "5", "--set", "max_epochs=100000", "--set", "patience=0"]
    done = subprocess.run(
        ["bash", "-c", script, "-", *preloaded_command(), "train", *files, *budget, *TINY],
        env=environment(), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "141"
    assert done.stderr == ""
    assert list((out / "checkpoints").glob("update-*/state.json"))
    assert not (out / "config.json").exists()


@pytest.mark.slow
def test_training_with_standard_error_closed_goes_to_its_end(tmp_path: Path) -> None:
    source, target = write_corpus(tmp_path)
    files = ["--source", source, "--target", target, "--out", tmp_path / "run"]
    done = subprocess.run(
        ["bash", "-c", '"$@" 2>&-', "-", *COMMAND, "train", *files, "--max-updates", "6", *TINY],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "max_updates 6 is reached" in done.stdout
    log = (tmp_path / "run/log.jsonl").read_text()
    assert all(json.loads(line)["kind"] for line in log.splitlines())


@pytest.mark.parametrize("attention", ["luong-location", "luong-local"])
def test_attention_with_settings_of_its_own_trains_by_its_name(
    attention: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With its own defaults."""
    source, target = write_corpus(tmp_path)
    out, files = tmp_path / "run", ["--source", source, "--target", target]
    small = ["--set", "model.d_model=16", "--set", "tokenizer.kind=characters", "--threads", 1]
    flags = [*files, "--out", out, "--model", "recurrent", "--set", f"attention={attention}"]
    report = output_of(["train", *flags, *small, "--set", "metric=loss", "--max-updates", 2], capfd)
    assert "max_updates 2 is reached" in report
    assert load_bundle(out).config.model.attention == attention


def test_the_precision_of_a_run_is_a_flag(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = write_corpus(tmp_path)
    files, out = ["--source", source, "--target", target], tmp_path / "run"
    tiny = [each for each in zip(TINY[::2], TINY[1::2], strict=True) if "precision" not in each[1]]
    flags = [*files, "--out", out, *(word for each in tiny for word in each), "--max-updates", 1]
    output_of(["train", *flags, "--precision", "bfloat16"], capfd)
    assert 'precision = "bfloat16"' in (out / "recipe.toml").read_text()
    assert run([str(word) for word in ["train", *flags, "--precision", "float8"]]) == 2
    assert "--precision: expected" in capfd.readouterr().err


@pytest.mark.slow
def test_fine_tuning_mixes_in_an_earlier_run_and_reports_both_domains(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    for name, lines in (("old", "ab"), ("new", "cd")):
        for side, change in (("en", str), ("de", str.upper)):
            for split, numbers in (("", range(10)), ("-valid", range(10, 13))):
                text = "".join(f"{change(f'{a} {n} {b}')}\n" for a in lines for b in lines
                               for n in numbers)  # fmt: skip
                (tmp_path / f"{name}{split}.{side}").write_text(text)

    def files(name: str) -> list[object]:
        sides = {"source": "en", "target": "de"}
        splits = {"": "", "valid-": "-valid"}
        return [item for prefix, split in splits.items() for key, side in sides.items()
                for item in (f"--{prefix}{key}", tmp_path / f"{name}{split}.{side}")]  # fmt: skip

    base, out = tmp_path / "base", tmp_path / "tuned"
    output_of(["train", *files("old"), "--out", base, *TINY, "--max-updates", 2], capfd)
    tuned = ["train", "--from", base, "--mix", base, *files("new"), "--out", out]
    printed = output_of([*tuned, "--max-updates", 3, "--threads", 1], capfd)
    rows = [line for line in printed.splitlines() if " domain " in line]
    assert len(rows) == 4 and all(" at update 0, " in row for row in rows)
    assert rows[0].startswith("new domain") and rows[2].startswith("old domain")
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    valid = [row for row in log if row["kind"] == "valid"]
    assert valid[0]["update"] == 0 and {"old_loss", "old_bleu"} <= valid[0].keys()
    data = tomllib.loads((out / "recipe.toml").read_text())["data"]
    assert data["old_source"] == ["../old.en"] and data["old_valid_target"] == ["../old-valid.de"]
    said = refused("train", "--from", base, "--mix", tmp_path, *files("new"), "--out", "x")
    assert f"{tmp_path}: holds no recipe.toml; name the directory of a run to mix in" in said
    said = refused("train", "--from", base, "--mix", base, *files("new")[:4], "--out", "x")
    assert "mixing in an old domain needs validation files of both domains: give --valid-s" in said


@pytest.mark.slow
def test_fine_tuning_validates_on_pairs_that_an_earlier_run_has_held_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    source, target = write_corpus(tmp_path)
    files = ["--source", source, "--target", target]
    valid = ["--valid-source", source, "--valid-target", target]
    base, out = tmp_path / "base", tmp_path / "tuned"
    output_of(["train", *files, "--out", base, *TINY, "--max-updates", 2], capfd)
    held = (base / "held-out.tsv").read_text().splitlines()[1:]
    tuned = ["train", "--from", base, "--mix", base, *files, "--threads", 1, "--max-updates", 3]
    refused(*tuned, "--out", out)  # without validation files of the new domain
    assert not (tmp_path / "tuned.data").exists()
    output_of([*tuned, *valid, "--out", out], capfd)
    names = sorted(path.name for path in (tmp_path / "tuned.data").iterdir())
    data = tomllib.loads((out / "recipe.toml").read_text())["data"]
    found = [name for side in ("source", "target") for name in data[f"old_valid_{side}"]]
    assert sorted(found) == [f"../tuned.data/{name}" for name in names] and len(names) == 2
    left = (out / "left-out.tsv").read_text()
    repeated = [line for line in left.splitlines() if line.endswith("repeats a validation source")]
    assert len(held) <= len(repeated)
