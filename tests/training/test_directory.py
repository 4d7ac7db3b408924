import errno
import fcntl
import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crosshead.errors import UserError
from crosshead.tasks.registry import load_bundle
from crosshead.training.directory import (
    check_directory,
    check_utf8,
    clear,
    drop_replaced,
    earlier_run_path,
    locked_directory,
    remove_unfinished,
    run_directory,
    stored_recipe,
)

OF_A_RUN = [
    "recipe.toml", "log.jsonl", "left-out.tsv", "training.png", "config.json", "README.md",
    "model.safetensors", "tokenizer.json", "tokenizer.model", "source.json", "target.json",
    "checkpoints/update-00000002/state.json", "checkpoints/best.safetensors",
    "checkpoints/.update-00000003.123.crosshead/weights.safetensors", "tensorboard/events",
    ".engines/ctranslate2/model.bin",
    ".config.json.123.crosshead", "checkpoints/.best.safetensors.123.crosshead",
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


@contextmanager
def writing(out: Path, *, resume: bool = False) -> Iterator[None]:
    """What a run does around its work."""
    with locked_directory(out) as lock, run_directory(lock, resume=resume):
        yield


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
    assert str(run / name.split("/")[0]) in said and "--force removes nothing" in said


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
        (["checkpoints/update-00000001/state.json"], True),
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


def test_a_directory_with_nothing_but_an_unfinished_file_is_as_good_as_empty(
    tmp_path: Path,
) -> None:
    out = fill(tmp_path / "out", ".recipe.toml.123.crosshead")
    assert "begin one without --resume" in refusal(out, resume=True)
    check_directory(out, resume=False, force=False, inputs=[])


@pytest.mark.parametrize("more", [[], [".recipe.toml.123.crosshead"], ["recipe.toml"]])
def test_a_run_that_was_cut_off_at_its_beginning_is_replaced_by_force(
    tmp_path: Path, more: list[str]
) -> None:
    out = fill(tmp_path / "out", *more)
    (tmp_path / "out/checkpoints").mkdir(parents=True)
    for resume in (False, True):
        assert "--force" in refusal(out, resume=resume)
    with writing(out):  # as with --force
        assert not contents(out)
        fill(out, "recipe.toml", "checkpoints/update-00000001/state.json")


def test_a_recipe_alone_is_somebodys_own(tmp_path: Path) -> None:
    out = fill(tmp_path / "out", "recipe.toml", ".log.jsonl.123.crosshead")
    for flags in ({}, {"force": True}, {"resume": True}):
        said = refusal(out, **flags)
        assert "choose another directory" in said


def test_what_a_move_has_left_is_known_as_a_run_until_the_last(run: Path) -> None:
    """Whichever of the moves was the last that a kill allowed."""
    before, kept, rename = contents(run), earlier_run_path(run), Path.rename
    for last in range(len(list(run.iterdir()))):
        moves = iter(range(last))

        def killed(self: Path, target: Path, moves: Iterator[int] = moves) -> Path:
            if next(moves, None) is None:
                raise KeyboardInterrupt
            return rename(self, target)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "rename", killed)
            with pytest.raises(KeyboardInterrupt), locked_directory(run) as lock:
                run_directory(lock, resume=False).__enter__()
        assert "--force" in refusal(run)
        if last:
            assert "--force" in refusal(run, resume=True)
        check_directory(run, resume=False, force=True, inputs=[])
        with writing(run):
            assert contents(kept) == before
        assert contents(run) == before


LEFT_BY_A_KILL = [
    ".recipe.toml.123.crosshead", ".model.safetensors.9.crosshead",
    "checkpoints/.best.safetensors.123.crosshead",
    "checkpoints/.update-00000003.123.crosshead/weights.safetensors",
    "checkpoints/update-00000002/.state.json.123.crosshead",
]  # fmt: skip


def without_locks(file: object, kind: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_what_a_kill_left_unfinished_is_removed_if_nobody_writes_it(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(run, *LEFT_BY_A_KILL)
    others = ["notes.9.tmp", ".thesis.123.tmp"]
    fill(run, *others)
    whole = [name for name in OF_A_RUN if ".crosshead" not in name]
    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", without_locks)
        remove_unfinished(run)
        assert all((run / name).exists() for name in LEFT_BY_A_KILL)
    with (run / "checkpoints/update-00000002/.state.json.123.crosshead").open("ab") as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        remove_unfinished(run)
        assert [name for name in LEFT_BY_A_KILL if (run / name).exists()] == LEFT_BY_A_KILL[-1:]
    remove_unfinished(run)
    assert not any((run / name).exists() for name in LEFT_BY_A_KILL)
    assert all((run / name).exists() for name in [*others, *whole])


def test_only_what_can_be_resumed_is_offered_for_it(run: Path, tmp_path: Path) -> None:
    assert "--resume continues it, --force replaces it" in refusal(run)
    check_directory(run, resume=True, force=False, inputs=[])
    begun = fill(tmp_path / "begun", "recipe.toml", "log.jsonl")
    assert "--resume" not in refusal(begun)
    assert "no run with a checkpoint" in refusal(begun, resume=True)


def test_what_the_new_run_reads_is_not_removed_with_the_old_one(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").symlink_to(run)
    assert "--force would remove it with the run" in refusal(run, run, force=True)
    for path in (run / "left-out.tsv", Path("run/log.jsonl"), tmp_path / "other/README.md"):
        said = refusal(run, tmp_path / "elsewhere", path, force=True)
        assert said.startswith(f"{path}: --force would remove it")
    assert "would remove it" in refusal(run, earlier_run_path(run) / "config.json", force=True)


def test_what_a_link_points_to_stays(run: Path, tmp_path: Path) -> None:
    (run / "tensorboard/events").unlink()
    (run / "tensorboard").rmdir()
    fill(tmp_path / "disk", "events")
    (run / "tensorboard").symlink_to(tmp_path / "disk")
    clear(run)
    assert not list(run.iterdir())
    assert (tmp_path / "disk/events").exists()


@pytest.mark.parametrize("made_before", [False, True])
def test_a_run_without_a_checkpoint_leaves_nothing(tmp_path: Path, made_before: bool) -> None:
    out = tmp_path / "runs" / "out"
    if made_before:
        out.mkdir(parents=True)

    def begin() -> None:
        with writing(out):
            fill(out, "recipe.toml", "log.jsonl", "tensorboard/events")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin()
    assert out.exists() == out.parent.exists() == made_before
    assert not list(out.glob("*"))


def test_a_run_with_a_checkpoint_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with writing(out):
        fill(out, "recipe.toml", "checkpoints/update-00000001/state.json")
    assert (out / "recipe.toml").exists()


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_run_that_is_replaced_comes_back_if_nothing_came_of_the_new_one(run: Path) -> None:
    before = contents(run)

    def begin() -> None:
        with writing(run):
            assert not contents(run)
            assert contents(earlier_run_path(run)) == before
            fill(run, "recipe.toml", "log.jsonl", "checkpoints/best.safetensors")
            raise UserError("the disk is full")

    with pytest.raises(UserError, match="disk is full"):
        begin()
    assert contents(run) == before
    assert not earlier_run_path(run).exists()


def test_the_run_that_is_replaced_is_kept_until_it_is_dropped(run: Path) -> None:
    before = contents(run)
    with writing(run):
        fill(run, "recipe.toml", "log.jsonl", "checkpoints/update-00000001/state.json")
    assert contents(earlier_run_path(run)) == before
    with writing(run, resume=True):
        pass
    assert contents(earlier_run_path(run)) == before
    drop_replaced(run)
    assert not earlier_run_path(run).exists()
    assert len(contents(run)) == 3
    drop_replaced(run)  # there is nothing to drop now


def test_a_run_cut_off_at_its_beginning_does_not_displace_the_one_that_is_kept(run: Path) -> None:
    before = contents(run)
    run.rename(earlier_run_path(run))
    fill(run, "recipe.toml", "log.jsonl")
    with writing(run):
        assert not contents(run)
        fill(run, "checkpoints/update-00000001/state.json")
    assert contents(earlier_run_path(run)) == before


FRAGMENT = ["recipe.toml", "log.jsonl", "checkpoints/update-00000001/state.json"]


def test_a_run_without_a_bundle_does_not_displace_one_with_a_bundle(run: Path) -> None:
    """However many were begun and cut off since: each goes in its turn."""
    before = contents(run)
    for _ in range(3):
        with writing(run):
            fill(run, *FRAGMENT)
        assert contents(earlier_run_path(run)) == before
        assert contents(run) == sorted(FRAGMENT)


def test_what_is_kept_gives_way_to_what_is_worth_more(run: Path) -> None:
    bundle = contents(run)
    fill(earlier_run_path(run), "recipe.toml", "checkpoints/update-00000009/state.json")
    with writing(run):  # it has a bundle, what is kept has none
        fill(run, *FRAGMENT)
    assert contents(earlier_run_path(run)) == bundle
    (earlier_run_path(run) / "config.json").unlink()
    with writing(run):  # neither has a bundle: the later one
        fill(run, "checkpoints/update-00000002/state.json")
    assert contents(earlier_run_path(run)) == sorted(FRAGMENT)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "checkpoints"])
def test_a_run_that_a_kill_left_in_two_places_is_set_aside_whole(run: Path, name: str) -> None:
    before = contents(run)
    earlier_run_path(run).mkdir()
    (run / name).rename(earlier_run_path(run) / name)
    with writing(run):
        fill(run, *FRAGMENT)
    assert contents(earlier_run_path(run)) == before


@pytest.mark.parametrize("left", [[], ["recipe.toml", "log.jsonl"]])
def test_where_an_earlier_bundle_is_kept_is_said_to_who_finds_none(
    run: Path, left: list[str]
) -> None:
    """As after a kill of the run that was to replace it."""
    run.rename(earlier_run_path(run))
    run.mkdir()
    fill(run, *left)
    place = f"; an earlier run, with its bundle, is kept in {earlier_run_path(run)}"
    said = refusal(run, resume=True)
    assert said.endswith(place) and ("--force" if left else "without --resume") in said
    if not left:
        with pytest.raises(UserError, match=re.escape(place)):
            stored_recipe(run)
    with pytest.raises(UserError, match=f"not a bundle: .*{re.escape(place)}$"):
        load_bundle(run)
    fill(run, *FRAGMENT)
    with pytest.raises(UserError, match=f"has no bundle yet: .*{re.escape(place)}$"):
        load_bundle(run)
    shutil.rmtree(run / "checkpoints")
    (earlier_run_path(run) / "config.json").unlink()
    assert "is kept in" not in refusal(run, resume=True)


def test_what_cannot_be_set_aside_stays(run: Path) -> None:
    before = contents(run)
    earlier_run_path(run).write_text("in the way")
    with pytest.raises(UserError, match="cannot be kept there"), writing(run):
        pass
    assert contents(run) == before


def test_a_name_that_is_no_text_is_refused_in_one_line() -> None:
    check_utf8("--out", "Größe")
    with pytest.raises(UserError, match=r"--out 'b\\udcff': not UTF-8"):
        check_utf8("--out", "b\udcff")


def test_a_directory_is_held_by_one_run_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with locked_directory(out):
        with pytest.raises(UserError, match="another run is writing there"), locked_directory(out):
            pass
        (out / "recipe.toml").touch()
    with locked_directory(out):
        assert (out / "recipe.toml").exists()


def test_a_process_that_dies_lets_go(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        try:
            locked_directory(tmp_path / "out").__enter__()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with locked_directory(tmp_path / "out"):
        pass


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(UserError, match="is a file"), locked_directory(tmp_path / "out"):
        pass


def test_a_directory_that_was_renamed_is_not_in_place(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with locked_directory(out) as lock:
        lock.check()
        out.rename(tmp_path / "moved")
        out.mkdir()  # another directory in its place is not the same
        with pytest.raises(UserError, match="renamed or removed"):
            lock.check()
