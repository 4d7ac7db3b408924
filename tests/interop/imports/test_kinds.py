"""The kind of a foreign model is recognised by its files."""

import shutil
from pathlib import Path

import pytest

from crosshead.errors import ConfigError
from crosshead.interop.imports.kinds import (
    KINDS,
    foreign_files,
    import_model,
    recognised,
)
from crosshead.interop.imports.reading import ForeignModelError
from tests.interop.imports.gpt2_directories import change, write_gpt2


def test_a_directory_and_an_archive_of_it_are_the_same_model(shared: Path, tmp_path: Path) -> None:
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", shared.parent, shared.name))
    one, other = (import_model(each).bundle for each in (shared, packed))
    assert one.config.origin is not None and other.config.origin is not None
    assert one.config.origin.kind == "huggingface"
    assert one.config.origin.sha256 == other.config.origin.sha256
    assert (one.config.origin.name, other.config.origin.name) == ("shared", "packed.zip")


def test_what_is_not_recognised_is_refused(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(ForeignModelError, match="no model of a known kind") as found:
        import_model(tmp_path)
    assert all(name in str(found.value) for name in KINDS)
    with pytest.raises(ConfigError, match="did you mean 'huggingface'"):
        import_model(shared, "huggingfac")
    assert recognised(shared, shared) == "huggingface"


def test_a_gpt2_is_a_model_of_huggingface(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "gpt2")
    assert recognised(tmp_path / "gpt2", tmp_path / "gpt2") == "huggingface"
    config = import_model(tmp_path / "gpt2", "huggingface").bundle.config
    assert config.model.architecture == "language" and config.task == "language"
    change(tmp_path / "gpt2" / "config.json", {"model_type": "opt"})
    with pytest.raises(ForeignModelError, match=r"'opt'; .* only 'marian' and 'gpt2' can be"):
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
    ]
    others = ["run.py", "tf_model.h5", "x/config.json", "x/pytorch_model.bin", "training.pkl"]
    assert sorted(foreign_files([*names, *others])) == sorted(names)
    pickled, safe = "pytorch_model.bin", "model.safetensors"
    assert foreign_files([pickled, "config.json"]) == ["config.json", pickled]
    for other in (safe, "opus.npz", "model.bin"):
        assert foreign_files([pickled, other]) == [other]
        assert foreign_files([pickled, f"x/{other}"]) == [pickled]
