"""Foreign files are read without running code from them, and every fault is named."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crosshead.addons.interop.imports.reading import (
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


@pytest.mark.parametrize(
    "values",
    [
        np.array(["text"]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros(1, dtype=[("a", "f4")]),
        np.zeros(2, dtype=np.longdouble),
        np.zeros(2, dtype=">f4"),
        np.zeros(2, dtype=np.complex64),
    ],
)
def test_arrays_of_anything_but_usual_numbers_are_refused(
    tmp_path: Path, values: np.ndarray[Any, Any]
) -> None:
    np.savez(tmp_path / "a.npz", a=values)
    assert "an array of" in refused(tmp_path, "arrays", "a.npz")


def test_an_array_is_not_larger_than_its_file(tmp_path: Path) -> None:
    """Its shape alone would take memory."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as out:
        out.writestr("a.npy", stream.getvalue())
    assert "damaged" in refused(tmp_path, "arrays", "a.npz")


def test_arrays_in_the_order_of_columns_are_read(tmp_path: Path) -> None:
    values = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.savez(tmp_path / "a.npz", a=values)
    assert (ForeignDirectory(tmp_path).arrays("a.npz")["a"] == values).all()


def test_weights_alone_are_read_from_a_pickle(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "good.bin")
    assert ForeignDirectory(tmp_path).pickled_tensors("good.bin")["a"].tolist() == [1, 1]
    torch.save([torch.ones(2)], tmp_path / "list.bin")
    assert "weights by name" in refused(tmp_path, "pickled_tensors", "list.bin")
    torch.save({"a": np.ones(2)}, tmp_path / "other.bin")
    refused(tmp_path, "pickled_tensors", "other.bin")
    for weights in (
        {1: torch.ones(2)},
        {"a": torch.ones(2).to_sparse()},
        {"a": torch.ones(1).expand(1 << 50)},
        {"a": torch.ones(2, device="meta")},
    ):
        torch.save(weights, tmp_path / "odd.bin")
        assert "weights by name" in refused(tmp_path, "pickled_tensors", "odd.bin")
    torch.save({"a": torch.ones(2)}, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    assert "save_pretrained" in refused(tmp_path, "pickled_tensors", "old.bin")


def test_yaml_keeps_words_as_text() -> None:
    assert parse_yaml(b"no: 1\n1e3: 2\n'~': 3\n", "x") == {"no": "1", "1e3": "2", "~": "3"}
    with pytest.raises(ForeignModelError, match="expected a YAML mapping, found list"):
        parse_yaml(b"- a\n", "x")
    with pytest.raises(ForeignModelError, match="not valid YAML"):
        parse_yaml(b"{ a: [}", "x")


def test_aliases_of_yaml_do_not_expand() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    found = parse_yaml("\n".join(lines).encode(), "vocab.yml")
    assert found["a29"][0] is found["a28"]


@pytest.mark.parametrize("opening", [b"- ", b"[", b"a: {", b"? "])
def test_deep_yaml_is_refused(opening: bytes) -> None:
    """A million lists overflow the stack of libyaml, and a hundred thousand take minutes."""
    with pytest.raises(ForeignModelError, match="x: lists in lists to a depth of 11"):
        parse_yaml(opening * 1_000_000, "x")


def test_yaml_is_read_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("yaml.CBaseLoader")
    assert parse_yaml(b"no: 1\na: [b, c]\n", "x") == {"no": "1", "a": ["b", "c"]}


def test_a_name_that_no_file_can_have_is_missing(tmp_path: Path) -> None:
    assert not ForeignDirectory(tmp_path).has("a" * 5000)
    assert not ForeignDirectory(tmp_path).has("a\0b")


def test_a_list_of_texts_has_no_lone_surrogates(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text('["a", "b"]')
    assert ForeignDirectory(tmp_path).json_list("good.json") == ["a", "b"]
    for name, text in (("surrogate", r'["\ud800"]'), ("numbers", "[1]"), ("mapping", "{}")):
        (tmp_path / name).write_text(text)
        assert "list of texts" in refused(tmp_path, "json_list", name)


def archive(path: Path, *names: str, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as out:
        for name in names:
            out.writestr(name, "text" * 99)
    return path


def test_an_archive_is_unpacked_without_its_only_folder(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with unpacked(archive(tmp_path / "a.zip", "opus/a.txt", "opus/b/c.txt"), scratch) as found:
        assert found.name == "opus" and (found / "b" / "c.txt").read_text() == "text" * 99
    with unpacked(tmp_path, scratch) as found:
        assert found == tmp_path


@pytest.mark.parametrize(
    "name", ["../out", "a/../../out", "/tmp/out", "..\\out", "C:/out", "./good.txt", "a//good.txt"]
)
def test_a_path_that_leads_out_of_the_archive_is_written_into_it(tmp_path: Path, name: str) -> None:
    scratch = tmp_path / "scratch" / "inside"
    scratch.mkdir(parents=True)
    with unpacked(archive(tmp_path / "a.zip", "good.txt", name), scratch):
        assert {each.name for each in tmp_path.iterdir()} == {"a.zip", "scratch"}
        assert [each.name for each in scratch.parent.iterdir()] == ["inside"]
        assert not Path("/tmp/out").exists()


def test_what_is_no_archive_or_too_large_is_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("x")
    for path, message in ((tmp_path / "lost", "no such file"), (plain, "neither a directory")):
        with pytest.raises(ForeignModelError, match=message), unpacked(path, tmp_path):
            pass
    packed = archive(tmp_path / "a.zip", "a", "b")
    with pytest.raises(ForeignModelError, match="at most 7"), unpacked(packed, tmp_path, most=7):
        pass


def test_a_name_that_occurs_twice_and_many_names_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.warns(UserWarning, match="Duplicate name"):
        packed = archive(tmp_path / "a.zip", "model.npz", "model.npz")
    twice = pytest.raises(ForeignModelError, match=r"a\.zip: a name occurs twice")
    with twice, unpacked(packed, scratch):
        pass
    monkeypatch.setattr("crosshead.system.stored.MOST_MEMBERS", 2)
    many = pytest.raises(ForeignModelError, match="has 3 members, expected at most 2")
    with many, unpacked(archive(tmp_path / "a.zip", "a", "b", "c"), scratch):
        pass
    assert not list(scratch.iterdir())


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
@pytest.mark.parametrize("place", range(31, 45, 4))
def test_a_damaged_archive_is_refused(tmp_path: Path, method: int, place: int) -> None:
    packed = archive(tmp_path / "a.zip", "a.txt", method=method)
    data = bytearray(packed.read_bytes())
    data[place : place + 4] = b"\xff\xfe\xfd\xfc"
    packed.write_bytes(data)
    (tmp_path / "scratch").mkdir()
    damaged = pytest.raises(ForeignModelError, match="damaged")
    with damaged, unpacked(packed, tmp_path / "scratch"):
        pass


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    packed = archive(tmp_path / "a.zip", "a")
    monkeypatch.setattr(zipfile.ZipFile, "extractall", fail)
    full = pytest.raises(ForeignModelError, match=r"cannot be unpacked into .*: No space left")
    with full, unpacked(packed, tmp_path):
        pass


def test_what_macos_adds_to_an_archive_is_left_out(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    litter = ("__MACOSX/model/._config.json", "model/.DS_Store", ".DS_Store", "model/._x")
    packed = archive(tmp_path / "a.zip", "model/config.json", *litter)
    with unpacked(packed, scratch) as directory:
        assert directory == scratch / "model"
        assert [each.name for each in directory.iterdir()] == ["config.json"]
