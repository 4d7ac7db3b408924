import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import crosshead
from crosshead.bundle.weights import weights_of
from crosshead.cli import run
from crosshead.config import ConfigError
from crosshead.models.registry import MODELS
from crosshead.recipe.reference import commented_recipe
from crosshead.tasks.registry import load_bundle
from crosshead.training.directory import locked_directory
from tests.cli.tools import BUNDLE, Refused, output_of

OLDER = BUNDLE.with_name("bundle-format-1")
FILES = ["tokenizer.json", "tokenizer.model", "model.safetensors", "README.md", "config.json"]


def test_what_a_bundle_is(capfd: pytest.CaptureFixture[str]) -> None:
    text = output_of(["info", BUNDLE], capfd)
    parameters = sum(weight.numel() for weight in weights_of(load_bundle(BUNDLE).model).values())
    assert f"{parameters:,}" in text
    assert "1+1 layers, d_model 32" in text


def test_presets_have_the_sizes_of_the_paper(capfd: pytest.CaptureFixture[str]) -> None:
    head, *lines = output_of(["presets"], capfd).splitlines()
    assert max(map(len, [head, *lines])) <= 100
    lines = lines[: lines.index("")]  # what is below explains
    rows = {tuple(line.split()[:2]): line for line in lines if not line.startswith(" ")}
    assert head.split() == ["model", "preset", "shape", "vocabulary", "parameters", "MB"]
    assert "63,082,496" in rows["transformer", "base"]
    assert "214,245,376" in rows["transformer", "big"]
    assert [name for model, name in rows if model == "transformer"] == [
        "student", "tiny", "small", "base", "big",
    ]  # fmt: skip
    assert {model for model, _ in rows} == set(MODELS)


def damage_nothing_there(bundle: Path) -> None:
    shutil.rmtree(bundle)


def damage_other_directory(bundle: Path) -> None:
    for file in bundle.iterdir():
        file.unlink()
    (bundle / "notes").write_text("x")


def damage_missing_weights(bundle: Path) -> None:
    (bundle / "model.safetensors").unlink()


def damage_missing_tokenizer(bundle: Path) -> None:
    for file in bundle.glob("tokenizer.*"):
        file.unlink()


def damage_truncated(bundle: Path) -> None:
    path = bundle / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def damage_not_json(bundle: Path) -> None:
    (bundle / "config.json").write_text("{")


def damage_newer_format(bundle: Path) -> None:
    path = bundle / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damage_nothing_there, "no such directory"),
        (damage_other_directory, "not a bundle"),
        (damage_missing_weights, "model.safetensors"),
        (damage_missing_tokenizer, "tokenizer"),
        (damage_truncated, "model.safetensors: its size is not the one in config.json"),
        (damage_not_json, "config.json: not valid JSON"),
        (damage_newer_format, "upgrade crosshead"),
    ],
)
@pytest.mark.parametrize("verb", ["translate", "info"])
def test_bundles_that_are_none(
    verb: str, damage: Callable[[Path], None], words: str, tmp_path: Path, refused: Refused
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(BUNDLE, bundle)
    damage(bundle)
    said = refused(verb, bundle)
    assert words in said
    assert str(bundle) in said


def test_every_file_is_verified(capfd: pytest.CaptureFixture[str]) -> None:
    lines = output_of(["info", "--verify", BUNDLE], capfd).splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(FILES)
    assert all(line.endswith("unchanged") for line in lines)


@pytest.mark.parametrize("name", [*FILES[:-1]])
def test_what_differs_is_named(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bundle = Path(shutil.copytree(BUNDLE, tmp_path / "bundle"))
    (bundle / name).write_bytes((bundle / name).read_bytes()[:-1] + b"~")
    assert run(["info", "--verify", str(bundle)]) == 2
    captured = capfd.readouterr()
    [line] = captured.err.splitlines()
    assert line.startswith(f"crosshead: error: {bundle}: ") and f" {name};" in line
    wrong = [line for line in captured.out.splitlines() if not line.endswith("unchanged")]
    assert [line.split()[0] for line in wrong] == [name]


def test_an_older_bundle_is_noted_once(capfd: pytest.CaptureFixture[str], refused: Refused) -> None:
    for verb in ("info", "translate"):
        assert run([verb, str(OLDER), *([] if verb == "info" else ["/dev/null"])]) == 0
        [note] = capfd.readouterr().err.splitlines()
        assert note.startswith(f"crosshead: {OLDER}: an old bundle without checksums")
    assert "holds no checksums" in refused("info", "--verify", OLDER)


def test_what_of_a_run_may_be_shared_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_directory = Path(shutil.copytree(BUNDLE, tmp_path / "my run"))
    assert "to share" not in output_of(["info", run_directory], capfd)
    for name in ("checkpoints", "tensorboard"):
        (run_directory / name).mkdir()
    for name in ("recipe.toml", "log.jsonl", "held-out.tsv"):
        (run_directory / name).touch()
    rows = dict(
        line.split("  ", 1) for line in output_of(["info", run_directory], capfd).splitlines()
    )
    assert f"pack '{run_directory}'" in rows["to share"]
    assert rows["only for --resume"].strip() == "recipe.toml, checkpoints"
    assert rows["may be deleted"].strip() == "log.jsonl, tensorboard, held-out.tsv"


def test_a_run_under_way_is_not_to_be_resumed(
    tmp_path: Path, refused: Refused, capfd: pytest.CaptureFixture[str]
) -> None:
    run_directory = tmp_path / "run"
    (run_directory / "checkpoints").mkdir(parents=True)
    (run_directory / "recipe.toml").touch()
    with locked_directory(run_directory):
        said = refused("info", run_directory)
        assert "a training run under way, before its first log entry; it has no bundle" in said
        log = '{"kind": "train", "update": 1200}\n{"kind": "valid", "update": 1300}\n'
        (run_directory / "log.jsonl").write_text(log)
        said = refused("info", run_directory)
        assert "under way, at update 1,300 or later; " in said and "--resume" not in said
        shutil.copytree(BUNDLE, run_directory, dirs_exist_ok=True)
        rows = output_of(["info", run_directory], capfd)  # of a run that was resumed
        assert rows.splitlines()[-1].split("  ")[0] == "run"
        assert rows.endswith("  under way, at update 1,300 or later\n")
        assert "may be deleted" not in rows
    assert "may be deleted" in output_of(["info", run_directory], capfd)


def test_a_bundle_is_packed_and_used(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").write_text("One two three.\n")
    assert "  unzip en-de.crosshead.zip -d en-de\n" in output_of(["pack", "--help"], capfd)
    [name] = output_of(["pack", BUNDLE], capfd).splitlines()
    assert name == f"{BUNDLE.name}.crosshead.zip"
    for arguments in (["translate", "input"], ["info"], ["info", "--verify"]):
        verb, *rest = arguments
        packed, unpacked = (
            output_of([verb, bundle, *rest], capfd).replace(str(bundle), "")
            for bundle in (name, BUNDLE)
        )
        assert packed == unpacked != ""
    [line] = output_of(["pack", BUNDLE, "--out", "other.zip"], capfd).splitlines()
    assert Path(line).read_bytes() == Path(name).read_bytes()


LINES = ["one two", "", "seven"]


def test_the_average_of_a_bundle_and_itself_is_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output_of(["average", BUNDLE, BUNDLE, "--out", tmp_path / "mean"], capfd)
    assert crosshead.load(tmp_path / "mean")(LINES) == crosshead.load(BUNDLE)(LINES)


def test_an_average_that_cannot_be_made_is_refused(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "mine").write_text("not a bundle")
    assert "two bundles" in refused("average", BUNDLE, "--out", tmp_path / "mean")
    said = refused("average", BUNDLE, BUNDLE, "--out", tmp_path)
    assert "already exists" in said


def test_the_command_explains_and_prints(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["recipe", "--explain", "lr"]) == 2
    assert "did you mean 'learning_rate'" in capfd.readouterr().err
    for key, hint in (
        ("label", "did you mean 'label_smoothing'?"),
        ("train.label", "did you mean 'label_smoothing'?"),
        ("train.heads", "did you mean 'model.heads'?"),
        ("modle.zzz", "`crosshead recipe --explain` lists the keys"),
    ):
        assert run(["recipe", "--explain", key]) == 2
        assert capfd.readouterr().err == f"crosshead: error: unknown key {key!r}; {hint}\n"
    assert run(["recipe"]) == 2
    assert "--explain" in capfd.readouterr().err
    assert run(["recipe", "--preset", "small", "--explain"]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert run(["recipe", "--preset", "tiny", "--model", "language"]) == 0
    assert 'architecture = "language"' in capfd.readouterr().out
    assert run(["recipe", "heads"]) == 0
    assert capfd.readouterr().out.startswith("model.heads = 8\n")
    assert run(["recipe", "--preset", "auto"]) == 2
    assert "auto chooses its values from the data" in capfd.readouterr().err
    with pytest.raises(ConfigError, match="unknown preset 'base' of language"):
        commented_recipe("base", "language")
