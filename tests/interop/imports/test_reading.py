"""Foreign files are read without running code from them, and every fault is named."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from crosshead.interop.imports.reading import (
    ForeignDirectory,
    ForeignModelError,
    parse_yaml,
    unpacked,
)


def refused(directory: Path, method: str, name: str) -> str:
    with pytest.raises(ForeignModelError) as found:
        getattr(ForeignDirectory(directory), method)(name)
    message = str(found.value)
    assert name in message and "\n" not in message
    return message


@pytest.mark.parametrize(
    "method", ["bytes", "json", "yaml", "sha256", "safetensors", "pickled_tensors", "arrays"]
)
def test_a_missing_file_a_directory_and_garbage_are_refused(tmp_path: Path, method: str) -> None:
    assert "missing" in refused(tmp_path, method, "lost")
    (tmp_path / "folder").mkdir()
    assert "a directory" in refused(tmp_path, method, "folder")
    if method not in ("bytes", "sha256"):
        (tmp_path / "garbage").write_bytes(b"\x80\x02: [\xff" * 40)
        refused(tmp_path, method, "garbage")


def test_arrays_are_read_without_pickles(tmp_path: Path) -> None:
    np.savez(tmp_path / "good.npz", a=np.arange(3.0), b=np.ones((2, 2)))
    found = ForeignDirectory(tmp_path).arrays("good.npz")
    assert sorted(found) == ["a", "b"] and found["a"].tolist() == [0, 1, 2]
    np.savez(tmp_path / "objects.npz", a=np.array([{}], dtype=object))
    refused(tmp_path, "arrays", "objects.npz")
    data = (tmp_path / "good.npz").read_bytes()
    (tmp_path / "short.npz").write_bytes(data[: len(data) // 2])
    refused(tmp_path, "arrays", "short.npz")
    np.savez_compressed(tmp_path / "packed.npz", a=np.zeros(1000))
    assert "compressed" in refused(tmp_path, "arrays", "packed.npz")


def test_weights_alone_are_read_from_a_pickle(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "good.bin")
    assert ForeignDirectory(tmp_path).pickled_tensors("good.bin")["a"].tolist() == [1, 1]
    torch.save([torch.ones(2)], tmp_path / "list.bin")
    assert "weights by name" in refused(tmp_path, "pickled_tensors", "list.bin")
    torch.save({"a": np.ones(2)}, tmp_path / "other.bin")
    refused(tmp_path, "pickled_tensors", "other.bin")
    torch.save({"a": torch.ones(2)}, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    assert "save_pretrained" in refused(tmp_path, "pickled_tensors", "old.bin")


def test_yaml_keeps_words_as_text() -> None:
    assert parse_yaml(b"no: 1\n1e3: 2\n'~': 3\n", "x") == {"no": "1", "1e3": "2", "~": "3"}
    with pytest.raises(ForeignModelError, match="expected a YAML mapping, found list"):
        parse_yaml(b"- a\n", "x")
    with pytest.raises(ForeignModelError, match="not valid YAML"):
        parse_yaml(b"{" * 5000, "x")


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as out:
        for name in names:
            out.writestr(name, "text")
    return path


def test_an_archive_is_unpacked_without_its_only_folder(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with unpacked(archive(tmp_path / "a.zip", "opus/a.txt", "opus/b/c.txt"), scratch) as found:
        assert found.name == "opus" and (found / "b" / "c.txt").read_text() == "text"
    with unpacked(tmp_path, scratch) as found:
        assert found == tmp_path


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/tmp/out", "..\\out", "C:/out"])
def test_a_path_that_leads_out_of_the_archive_writes_nothing(tmp_path: Path, name: str) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    packed = archive(tmp_path / "a.zip", "good.txt", name)
    with pytest.raises(ForeignModelError, match="leads out"), unpacked(packed, scratch):
        pass
    assert not list(scratch.iterdir())


def test_what_is_no_archive_or_too_large_is_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("x")
    for path, message in ((tmp_path / "lost", "no such file"), (plain, "neither a directory")):
        with pytest.raises(ForeignModelError, match=message), unpacked(path, tmp_path):
            pass
    packed = archive(tmp_path / "a.zip", "a", "b")
    with pytest.raises(ForeignModelError, match="at most 7"), unpacked(packed, tmp_path, most=7):
        pass
    data = bytearray(packed.read_bytes())
    data[30:34] = b"XXXX"
    packed.write_bytes(data)
    damaged = pytest.raises(ForeignModelError, match="truncated or damaged")
    with damaged, unpacked(packed, tmp_path / "scratch"):
        pass
