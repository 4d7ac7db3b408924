import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import crosshead
from crosshead.bundle import load_bundle, weights_of
from crosshead.cli import run
from crosshead.models.registry import MODELS

ROOT = Path(__file__).parent.parent
BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"
COMMAND = [sys.executable, "-m", "crosshead"]
LINES = ["one two", "", "three", "two one three one", " ", "seven"]
TINY = [
    *("--set", "tokenizer.kind=characters", "--set", "model.encoder_layers=1"),
    *("--set", "model.decoder_layers=1", "--set", "model.d_model=16", "--set", "model.d_ff=16"),
    *("--set", "model.heads=2", "--set", "precision=float32", "--set", "train.batch_tokens=512"),
    *("--set", "metric=loss", "--set", "valid_every=10", "--set", "log_every=5"),
    *("--threads", "1", "--device", "cpu"),
]


def output_of(arguments: list[object], capfd: pytest.CaptureFixture[str]) -> str:
    code = run([str(argument) for argument in arguments])
    captured = capfd.readouterr()
    assert code == 0, captured.err
    return captured.out


def environment() -> dict[str, str]:
    # An ASCII locale: what is written is UTF-8 all the same.
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "LC_ALL": "C"}


def write_corpus(folder: Path) -> tuple[Path, Path]:
    words = [a + b + c for a in "abc" for b in "abc" for c in "ab"]
    pairs = [f"{left} {right}" for left in words for right in words[::2]]
    source, target = folder / "source.txt", folder / "target.txt"
    source.write_text("\n".join([*pairs, ""]) + "\n")
    target.write_text("\n".join([pair.upper() for pair in [*pairs, "empty"]]) + "\n")
    return source, target


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 20 updates."""
    folder = tmp_path_factory.mktemp("cli")
    source, target = write_corpus(folder)
    out = folder / "run"
    files = ["--source", str(source), "--target", str(target)]
    assert run(["train", *files, "--out", str(out), "--max-updates", "20", *TINY]) == 0
    return out


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["train", "--help"], ["data", "get", "--help"]],
)
def test_help_imports_nothing_slow(arguments: list[str]) -> None:
    program = (
        "import sys; from crosshead.cli import run; code = run(sys.argv[1:]); "
        "slow = {'torch', 'sentencepiece', 'sacrebleu', 'numpy'} & set(sys.modules); "
        "sys.exit(f'{code} {slow}' if code or slow else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize(
    "verb",
    [
        "train",
        "translate",
        "evaluate",
        "compare",
        "score",
        "info",
        "average",
        "presets",
        "data get",
        "generate",
        "fill",
        "study",
    ],
)
def test_help_has_an_example(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        f"crosshead {verb}" in output_of([*verb.split(), "--help"], capfd).partition("Example")[2]
    )


def test_help_speaks_of_what_a_verb_takes(capfd: pytest.CaptureFixture[str]) -> None:
    assert "perplexity" in output_of(["evaluate", "--help"], capfd)
    assert "perplexity" not in output_of(["compare", "--help"], capfd)
    for verb, usage in (
        ("train", "[RECIPE]"), ("translate", "{BUNDLE} [FILE]"), ("average", "{BUNDLE}..."),
    ):  # fmt: skip
        first = output_of([verb, "--help"], capfd).splitlines()[0]
        assert first == f"Usage: crosshead {verb} [OPTIONS] {usage}"
    assert "numbers of columns" in " ".join(output_of(["train", "--help"], capfd).split())


def test_the_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of(["--version"], capfd) == f"crosshead {crosshead.__version__}\n"


def test_no_arguments_are_a_call_for_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of([], capfd) == output_of(["--help"], capfd)


def test_exit_codes_are_in_the_help(capfd: pytest.CaptureFixture[str]) -> None:
    text = output_of(["--help"], capfd)
    assert all(code in text for code in ("0 ", "2 ", "129 ", "130 ", "141 ", "143 "))


def test_training_leaves_a_bundle_and_says_so(trained: Path) -> None:
    load_bundle(trained)
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
    # No file may grow beyond 16 blocks of 1,024 bytes, as if that were what is left.
    script = 'ulimit -f 16; exec "$@"'
    command = [*COMMAND, "train", "--resume", "--out", out, "--max-updates", "25"]
    done = subprocess.run(
        ["bash", "-c", script, "-", *command],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "cannot be written: File too large" in done.stderr.splitlines()[-1]
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
    assert run([str(each) for each in [*command, "--resume"]]) == 0
    captured = capfd.readouterr()
    assert "max_updates 5 is reached" in captured.out
    assert "--preset and --from are not read again" in captured.err
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
    assert "model.d_model is 32, that of the bundle" in capfd.readouterr().err
    assert not (tmp_path / "other").exists()


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


def test_translations_are_those_of_the_library(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_text("\n".join(LINES), encoding="utf-8")
    expected = crosshead.load(BUNDLE)(LINES)
    printed = output_of(["translate", BUNDLE, path], capfd)
    assert printed == "".join(f"{line}\n" for line in expected)
    assert printed.split("\n")[1] == ""
    assert output_of(["translate", BUNDLE, path, "--output", out], capfd) == ""
    assert out.read_text(encoding="utf-8") == printed


def test_n_best_and_scores_and_json_agree(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in"
    path.write_text("\n".join(LINES))
    listed = [
        line.split(" ||| ")
        for line in output_of(["translate", BUNDLE, path, "--n-best", 2], capfd).splitlines()
    ]
    scored = output_of(["translate", BUNDLE, path, "--scores"], capfd).splitlines()
    rows = output_of(["translate", BUNDLE, path, "--jsonl"], capfd).splitlines()
    both = output_of(["translate", BUNDLE, path, "--jsonl", "--n-best", 2], capfd).splitlines()
    assert [line for line, _, _ in listed] == ["1", "1", "2", "3", "3", "4", "4", "5", "6", "6"]
    for number, line in enumerate(LINES, 1):
        best = next([text, score] for at, text, score in listed if at == str(number))
        assert scored[number - 1].split("\t") == best
        row, several = json.loads(rows[number - 1]), json.loads(both[number - 1])
        assert (row["line"], row["source"], row["translation"]) == (number, line, best[0])
        assert f"{row['score']:.4f}" == best[1]
        assert row["log_prob"] == pytest.approx(sum(row["piece_log_probs"]))
        assert several["translations"][0]["translation"] == best[0]


def test_samples_depend_on_the_seed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in"
    path.write_text("one two three\n" * 8)
    flags = ["--sample", "--temperature", 3, "--top-k", 50]
    first, again, other = (
        output_of(["translate", BUNDLE, path, *flags, "--seed", seed], capfd) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_line_that_is_split_is_warned_of(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in"
    path.write_text("one.\n" + "One two three. " * 20 + "\n")
    assert run(["translate", str(BUNDLE), str(path), "--beam", "1"]) == 0
    captured = capfd.readouterr()
    assert captured.out.count("\n") == 2
    said = "warning: line 2 is longer than the model's reach: it was split"
    assert f"{said} at ends of sentences and" in captured.err
    path.write_text("one.\n" + "one two three " * 20 + "\n")
    assert run(["translate", str(BUNDLE), str(path), "--beam", "1"]) == 0
    assert f"{said} inside a sentence and" in capfd.readouterr().err


def test_a_pipe_is_answered_while_it_is_open_and_ends_quietly() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, "translate", BUNDLE], env=environment(), **pipes) as process:
        assert process.stdin and process.stdout and process.stderr
        for line in (b"one\n", b"\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr.read() == b""


def test_a_closed_input_and_a_closed_output_are_mistakes() -> None:
    for redirection, words in (("<&-", "standard input is closed"), (">&-", "output is closed")):
        done = subprocess.run(
            ["bash", "-c", f'"$@" {redirection}', "-", *COMMAND, "translate", BUNDLE],
            env=environment(), input=b"one\n", capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert words in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    script = 'yes one | head -n 3000 | "$@" | head -n 1; echo ${PIPESTATUS[2]}'
    done = subprocess.run(
        ["bash", "-c", script, "-", *COMMAND, "translate", BUNDLE, "--beam", "1"],
        env=environment(), capture_output=True, check=True,
    )  # fmt: skip
    first, code = done.stdout.decode().splitlines()
    assert first
    assert (code, done.stderr) == ("141", b"")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
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
    files = ["--source", source, "--target", target, "--out", out]
    script = '"$@" 2>&1 | head -n 3; echo ${PIPESTATUS[0]}'
    budget = ["--max-minutes", "5", "--set", "max_epochs=100000", "--set", "patience=0"]
    done = subprocess.run(
        ["bash", "-c", script, "-", *COMMAND, "train", *files, *budget, *TINY],
        env=environment(), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "141"
    assert done.stderr == ""
    assert list((out / "checkpoints").glob("update-*/state.json"))
    assert not (out / "config.json").exists()


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


def test_evaluation_and_comparison(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, reference = tmp_path / "source", tmp_path / "reference"
    lines = ["one two", "three", "two one three one"]
    source.write_text("\n".join(lines))
    reference.write_text("\n".join(crosshead.load(BUNDLE)(lines)))
    files = ["--source", source, "--reference", reference]
    metrics = ["--metrics", "bleu,chrf,ter,perplexity", "--jsonl"]
    rows = [
        json.loads(line)
        for line in output_of(["evaluate", BUNDLE, *files, *metrics], capfd).splitlines()
    ]
    assert [row["metric"] for row in rows] == ["BLEU", "chrF2", "TER", "perplexity"]
    assert [round(row["value"]) for row in rows[:3]] == [100, 100, 0]
    assert rows[3]["value"] >= 1
    assert "tok:13a" in output_of(["evaluate", BUNDLE, *files], capfd)
    assert "tok:none" in output_of(["evaluate", BUNDLE, *files, "--tokenize", "none"], capfd)
    shutil.copytree(BUNDLE, tmp_path / "copy")
    both = output_of(["compare", BUNDLE, tmp_path / "copy", *files, "--metrics", "chrf"], capfd)
    assert both.count("chrF2  ") == 2


def test_the_average_of_a_bundle_and_itself_is_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output_of(["average", BUNDLE, BUNDLE, "--out", tmp_path / "mean"], capfd)
    assert crosshead.load(tmp_path / "mean")(LINES) == crosshead.load(BUNDLE)(LINES)


def test_given_translations_are_scored(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("one\ntwo\n")
    target.write_text("eins\nzwei\n")
    files = ["--source", source, "--target", target]
    expected = crosshead.load(BUNDLE).score(["one", "two"], ["eins", "zwei"])
    values = [float(line) for line in output_of(["score", BUNDLE, *files], capfd).splitlines()]
    assert values == pytest.approx([each.log_prob for each in expected], abs=1e-4)
    rows = output_of(["score", BUNDLE, *files, "--jsonl"], capfd).splitlines()
    assert [json.loads(row)["pieces"] for row in rows] == [each.pieces for each in expected]


def test_what_a_bundle_is(trained: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = output_of(["info", trained], capfd)
    parameters = sum(weight.numel() for weight in weights_of(load_bundle(trained).model).values())
    assert f"{parameters:,}" in text
    assert "1+1 layers, d_model 16" in text
    assert "tok:13a" in text


def test_presets_have_the_sizes_of_the_paper(capfd: pytest.CaptureFixture[str]) -> None:
    head, *lines = output_of(["presets"], capfd).splitlines()
    rows = {tuple(line.split()[:2]): line for line in lines}
    assert head.split() == ["model", "preset", "shape", "vocabulary", "parameters", "MB"]
    assert "63,082,496" in rows["transformer", "base"]
    assert "214,245,376" in rows["transformer", "big"]
    assert [name for model, name in rows if model == "transformer"] == [
        "tiny", "small", "base", "big",
    ]  # fmt: skip
    assert {model for model, _ in rows} == set(MODELS)


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
    assert "train.precision" in capfd.readouterr().err
