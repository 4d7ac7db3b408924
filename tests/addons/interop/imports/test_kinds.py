"""The kind of a foreign model is recognised by its files."""

import shutil
from pathlib import Path

import pytest

from crosshead.addons.interop.imports.kinds import foreign_files, import_model, recognised
from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.errors import ConfigError
from tests.addons.interop.imports.gpt2_directories import change, write_gpt2


def test_a_directory_and_an_archive_of_it_are_the_same_model(shared: Path, tmp_path: Path) -> None:
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", shared.parent, shared.name))
    one, other = (import_model(each).bundle for each in (shared, packed))
    assert one.config.origin is not None and other.config.origin is not None
    assert one.config.origin.kind == "huggingface"
    assert one.config.origin.sha256 == other.config.origin.sha256
    assert (one.config.origin.name, other.config.origin.name) == ("shared", "packed.zip")


BUNDLE = Path(__file__).parent.parent.parent.parent / "fixtures" / "bundle-format-1"


def test_an_unknown_kind_is_refused(shared: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'huggingface'"):
        import_model(shared, "huggingfac")
    assert recognised(shared, shared) == "huggingface"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "no model of a known kind: expected config.json of Hugging Face, decoder.yml of"),
        (["model.npz", "x/decoder.yml"], "no model of a known kind: "),
        (["onnx/encoder_model.onnx"], "an ONNX export, which cannot be imported; import the model"),
    ],
)
def test_what_is_not_recognised_is_refused_in_a_short_sentence(
    tmp_path: Path, files: list[str], message: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(ForeignModelError) as found:
        import_model(tmp_path)
    said = str(found.value).removeprefix(f"{tmp_path}: ")
    assert said.startswith(message) and len(said) < 170


def test_a_bundle_needs_no_import() -> None:
    with pytest.raises(
        ForeignModelError, match="is a bundle of crosshead: use it without an import"
    ):
        import_model(BUNDLE)


def test_a_directory_of_two_kinds_is_ambiguous(shared: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    (copied / "decoder.yml").touch()
    with pytest.raises(ForeignModelError, match="huggingface or marian; name the kind with --kind"):
        import_model(copied)
    assert import_model(copied, "huggingface").bundle.config.origin is not None


def test_a_message_about_an_archive_names_the_archive(shared: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    (copied / "source.spm").unlink()
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "copied")
    with pytest.raises(ForeignModelError, match=r"packed\.zip/source\.spm: missing") as found:
        import_model(Path(packed))
    assert str(found.value).startswith(packed)


def test_a_gpt2_is_a_model_of_huggingface(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "gpt2")
    assert recognised(tmp_path / "gpt2", tmp_path / "gpt2") == "huggingface"
    config = import_model(tmp_path / "gpt2", "huggingface").bundle.config
    assert config.model.architecture == "language" and config.task == "language"
    change(tmp_path / "gpt2" / "config.json", {"model_type": "opt"})
    with pytest.raises(
        ForeignModelError, match=r"'opt', expected 'marian', 'pegasus', 'gpt2'; this model"
    ):
        import_model(tmp_path / "gpt2", "huggingface")


def test_of_a_repository_only_files_of_a_model_are_read_and_a_pickle_last() -> None:
    names = [
        "config.json",
        "tokenizer.json",
        "merges.txt",
        "source.spm",
        "opus.vocab.yml",
        "shared_vocabulary.json",
        "model.bin",
        "search.json",
        "README.md",
    ]
    others = ["run.py", "tf_model.h5", "x/config.json", "x/pytorch_model.bin", "training.pkl"]
    assert sorted(foreign_files([*names, *others])) == sorted(names)
    assert foreign_files(["README.md", "run.py"]) == []
    pickled, safe = "pytorch_model.bin", "model.safetensors"
    assert foreign_files([pickled, "config.json"]) == ["config.json", pickled]
    for other in (safe, "opus.npz", "model.bin"):
        assert foreign_files([pickled, other]) == [other]
        assert foreign_files([pickled, f"x/{other}"]) == [pickled]
