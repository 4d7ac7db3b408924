import shutil
import zipfile
from pathlib import Path

import pytest

import crosshead
from crosshead.bundle.config_file import load_config
from crosshead.bundle.files import (
    SUFFIX,
    bundle_files,
    files_in_use,
    pack,
    verify_bundle,
)
from crosshead.bundle.weights import weights_of
from crosshead.cli.reports import bundle_facts
from crosshead.errors import BundleError, UserError
from crosshead.tasks.registry import kinds, load_bundle, outline_bundle
from crosshead.training.average import average_bundles
from tests.recipe.composing import new_recipe


def test_a_bundle_without_its_card_is_described_and_packed(sealed: Path) -> None:
    (sealed / "README.md").unlink()
    assert "README.md" not in bundle_files(sealed)
    packed = pack(sealed, sealed.with_name("a.crosshead.zip"))
    assert "README.md" not in bundle_files(packed)
    for place in (sealed, packed):
        rows = dict(bundle_facts(place, load_bundle(place)))
        assert "README.md" not in rows["size"]


def test_the_files_in_use_are_those_of_bundle_recipe_and_checkpoints(sealed: Path) -> None:
    (sealed / "checkpoints/update-1").mkdir(parents=True)
    (sealed / "checkpoints/update-1/state.json").touch()
    (sealed / "notes.txt").touch()
    found = {path.relative_to(sealed).as_posix() for path in files_in_use(sealed)}
    assert found == {
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer.model", "README.md",
        "recipe.toml", "checkpoints/update-1", "checkpoints/update-1/state.json",
    }  # fmt: skip
    packed = pack(sealed, sealed.with_name("a.crosshead.zip"))
    assert files_in_use(packed) == [packed]


def test_a_changed_file_has_a_fault_and_the_others_have_none(sealed: Path) -> None:
    assert not any(fault for _, fault in verify_bundle(sealed))
    (sealed / "tokenizer.model").write_bytes(b"other")
    faults = {name: fault for name, fault in verify_bundle(sealed) if fault}
    assert list(faults) == ["tokenizer.model"] and "its size" in faults["tokenizer.model"]


OLDER = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"
SEALED = OLDER.with_name("bundle-format-1-sealed")
FILES = ["tokenizer.json", "tokenizer.model", "model.safetensors", "README.md", "config.json"]


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SEALED, tmp_path / "run"))


@pytest.mark.parametrize("bundle", [OLDER, SEALED])
def test_a_packed_bundle_is_the_bundle(bundle: Path, tmp_path: Path) -> None:
    packed = pack(bundle, tmp_path / "a.zip")
    first, second = load_bundle(bundle), load_bundle(packed)
    assert (
        first.config
        == second.config
        == load_config(packed, kinds())[1]
        == outline_bundle(packed).config
    )
    theirs = weights_of(second.model)
    assert all(theirs[name].equal(each) for name, each in weights_of(first.model).items())
    assert crosshead.load(packed)("One two three.") == "Eins zwei drei."
    assert verify_bundle(packed) == verify_bundle(bundle)
    assert sorted(bundle_files(packed)) == sorted(bundle_files(bundle)) == sorted(FILES)


def test_a_packed_bundle_that_is_unzipped_is_a_directory_again(tmp_path: Path) -> None:
    with zipfile.ZipFile(pack(SEALED, tmp_path / "a.zip")) as archive:
        archive.extractall(tmp_path / "a")
    assert verify_bundle(tmp_path / "a") == verify_bundle(SEALED)
    assert crosshead.load(tmp_path / "a")("One two three.") == "Eins zwei drei."


def test_a_packed_bundle_is_averaged_and_a_start(tmp_path: Path) -> None:
    packed = pack(SEALED, tmp_path / "a.zip")
    mean = average_bundles([packed, SEALED], tmp_path / "mean")
    assert mean.config.model == load_config(SEALED, kinds())[1].model
    data = {"data": {"source": ["a"], "target": ["b"]}}
    assert new_recipe(None, None, data, [], start=packed).model == mean.config.model


def test_a_run_is_packed_without_what_is_not_of_the_bundle(sealed: Path, tmp_path: Path) -> None:
    expected = pack(SEALED, tmp_path / "expected.zip").read_bytes()
    (sealed / "log.jsonl").write_text("{}")
    (sealed / "held-out.tsv").write_text("private\tprivat")
    (sealed / "checkpoints").mkdir()
    packed = pack(sealed, tmp_path / "a.zip")
    assert packed.read_bytes() == expected
    with zipfile.ZipFile(packed) as archive:
        assert archive.testzip() is None and archive.namelist() == FILES
        assert archive.read("README.md") == (sealed / "README.md").read_bytes()


def test_it_is_named_after_the_bundle(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sealed)
    assert pack(Path()) == Path(f"run{SUFFIX}")
    assert Path(f"run{SUFFIX}").is_file()


def test_a_damaged_bundle_is_not_packed(sealed: Path, tmp_path: Path) -> None:
    path = sealed / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"~")
    with pytest.raises(BundleError, match=rf"^{path}: .*; nothing was packed"):
        pack(sealed, tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_an_edited_card_is_packed(sealed: Path, tmp_path: Path) -> None:
    (sealed / "README.md").write_text("# Mine\n")
    packed = pack(sealed, tmp_path / "a.zip")
    load_bundle(packed)
    with zipfile.ZipFile(packed) as archive:
        assert archive.read("README.md") == b"# Mine\n"


def test_what_cannot_be_packed(sealed: Path, tmp_path: Path) -> None:
    packed = pack(sealed, tmp_path / "a.zip")
    with pytest.raises(BundleError, match=r"a\.zip: a file; expected the directory"):
        pack(packed, tmp_path / "b.zip")
    with pytest.raises(UserError, match=r"is a file of the bundle itself"):
        pack(sealed, sealed / "config.json")
    with pytest.raises(UserError, match="cannot be written"):
        pack(sealed, tmp_path / "none" / "a.zip")
    load_bundle(sealed)


def zipped(path: Path, bundle: Path, how: int = zipfile.ZIP_STORED, **more: bytes) -> Path:
    """An archive that another program made of a bundle."""
    with zipfile.ZipFile(path, "w", how) as archive:
        for name in FILES:
            archive.write(bundle / name, name)
        for name, data in more.items():
            archive.writestr(name, data)
    return path


def test_a_bundle_that_another_program_packed_is_read(tmp_path: Path) -> None:
    load_bundle(zipped(tmp_path / "other.zip", SEALED))


def test_a_file_that_is_no_packed_bundle(tmp_path: Path) -> None:
    for other in (
        zipped(tmp_path / "compressed.zip", SEALED, zipfile.ZIP_DEFLATED),
        zipped(tmp_path / "more.zip", SEALED, **{"../../outside\n": b""}),
    ):
        for read in (load_bundle, outline_bundle, bundle_files):
            with pytest.raises(
                BundleError, match=r"\.zip: a zip archive; .*unpack it and give"
            ) as caught:
                read(other)
            assert "\n" not in str(caught.value)


def test_a_mixture_that_is_packed_is_refused(sealed: Path, tmp_path: Path) -> None:
    path = sealed / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"~")
    packed = zipped(tmp_path / "a.zip", sealed)
    for read in (load_bundle, outline_bundle):
        with pytest.raises(BundleError, match=r"a\.zip/model\.safetensors: its SHA-256 is not the"):
            read(packed)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device")
def test_a_full_disk_is_one_line() -> None:
    with pytest.raises(UserError, match=r"^/dev/full: cannot be written: No space"):
        pack(SEALED, Path("/dev/full"))
