from pathlib import Path

import pytest

from crosshead.errors import UserError
from crosshead.training.checkpoint import Progress
from crosshead.training.directory import check_directory, check_utf8, clear, run_directory

OF_A_RUN = [
    "recipe.toml", "log.jsonl", "left-out.tsv", "training.png", "config.json", "README.md",
    "model.safetensors", "tokenizer.json", "tokenizer.model", "source.json", "target.json",
    "checkpoints/update-00000002/state.json", "checkpoints/best.safetensors",
    "checkpoints/.update-00000003.tmp/weights.safetensors", "tensorboard/events",
    ".config.json.123.tmp", "checkpoints/.best.safetensors.123.tmp",
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A directory with all that a run can leave."""
    return fill(tmp_path / "run", *OF_A_RUN)


def fill(out: Path, *names: str) -> Path:
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("x")
    return out


def refusal(out: Path, *inputs: Path, resume: bool = False, force: bool = False) -> str:
    before = sorted(out.rglob("*"))
    with pytest.raises(UserError) as caught:
        check_directory(out, resume=resume, force=force, inputs=inputs)
    assert "\n" not in str(caught.value)
    assert sorted(out.rglob("*")) == before
    return str(caught.value)


def test_a_run_can_be_replaced_as_a_whole(run: Path) -> None:
    check_directory(run, resume=False, force=True, inputs=[run.parent / "train.en"])
    clear(run)
    assert not list(run.iterdir())


@pytest.mark.parametrize(
    "name",
    ["thesis.tex", "recipe.toml.bak", "data/train.en", "checkpoints/notes", "config.json.orig",
     ".thesis.123.tmp"],
)  # fmt: skip
def test_what_no_run_writes_is_never_removed(run: Path, name: str) -> None:
    fill(run, name)
    said = refusal(run, force=True)
    assert str(run / name.split("/")[0]) in said and "none of its files" in said


@pytest.mark.parametrize("name", ["README.md", "log.jsonl"])
def test_a_folder_with_the_name_of_a_file_is_none_of_its_files(run: Path, name: str) -> None:
    (run / name).unlink()
    fill(run, f"{name}/chapter")
    assert str(run / name) in refusal(run, force=True)


@pytest.mark.parametrize(
    ("names", "is_run"),
    [
        (["recipe.toml"], False),
        (["log.jsonl"], False),
        (["checkpoints/update-00000001/state.json"], False),
        (["recipe.toml", "README.md", "config.json"], False),
        (["recipe.toml", "log.jsonl"], True),
        (["recipe.toml", "checkpoints/best.safetensors"], True),
    ],
)
def test_a_run_is_a_recipe_and_what_came_of_it(
    tmp_path: Path, names: list[str], is_run: bool
) -> None:
    out = fill(tmp_path / "out", *names)
    assert ("holds a run already" in refusal(out)) == is_run
    if is_run:
        check_directory(out, resume=False, force=True, inputs=[])
    else:
        assert "holds no run" in refusal(out, force=True)


def test_only_what_can_be_resumed_is_offered_for_it(run: Path, tmp_path: Path) -> None:
    assert "--resume goes on with it, --force replaces it" in refusal(run)
    check_directory(run, resume=True, force=False, inputs=[])
    begun = fill(tmp_path / "begun", "recipe.toml", "log.jsonl")
    assert "--resume" not in refusal(begun)
    assert "no run with a checkpoint" in refusal(begun, resume=True)


def test_what_the_new_run_reads_is_not_removed_with_the_old_one(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").symlink_to(run)
    for path in (run / "left-out.tsv", run, Path("run/log.jsonl"), tmp_path / "other/README.md"):
        said = refusal(run, tmp_path / "elsewhere", path, force=True)
        assert said.startswith(f"{path}: --force would remove it")


def test_what_a_link_points_to_stays(run: Path, tmp_path: Path) -> None:
    (run / "tensorboard/events").unlink()
    (run / "tensorboard").rmdir()
    fill(tmp_path / "disk", "events")
    (run / "tensorboard").symlink_to(tmp_path / "disk")
    clear(run)
    assert not list(run.iterdir())
    assert (tmp_path / "disk/events").exists()


@pytest.mark.parametrize("made_before", [False, True])
def test_a_run_without_an_update_leaves_nothing(tmp_path: Path, made_before: bool) -> None:
    out = tmp_path / "out"
    if made_before:
        out.mkdir()

    def begin() -> None:
        with run_directory(out, Progress()):
            fill(out, "recipe.toml", "log.jsonl", "tensorboard/events")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin()
    assert out.exists() == made_before
    assert not list(out.glob("*"))


def test_a_run_with_an_update_is_kept(tmp_path: Path) -> None:
    with run_directory(tmp_path / "out", Progress(update=1)):
        fill(tmp_path / "out", "recipe.toml")
    assert (tmp_path / "out/recipe.toml").exists()


def test_a_name_that_is_no_text_is_refused_in_one_line() -> None:
    check_utf8("--out", "Größe")
    with pytest.raises(UserError, match=r"--out 'b\\udcff': not UTF-8"):
        check_utf8("--out", "b\udcff")
