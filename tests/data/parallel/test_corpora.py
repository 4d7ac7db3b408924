import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.config import validate
from crosshead.data.parallel.corpora import DataConfig, read_aligned, read_pairs, read_valid_pairs
from crosshead.errors import ConfigError
from tests.data.written import config, refusal, write


def test_unequal_files_are_named_with_both_counts(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", "a\nb\n"), write(tmp_path / "two", "a\n")
    message = refusal(read_aligned, one, two)
    assert f"{one} has 2 lines but {two} has 1" in message
    empty = write(tmp_path / "empty", "")
    assert "are empty" in refusal(read_aligned, empty, empty)


def test_several_corpora_of_every_kind_with_their_origins(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a.en", "one\ntwo\n"),
        write(tmp_path / "b.en.gz", "three\n"),
        write(tmp_path / "a.de", "eins\nzwei"),
        write(tmp_path / "b.de", "drei\r\n"),
        write(tmp_path / "c.tsv.gz", "id\tde\ten\n7\tvier\tfour\n8\tf\u2028nf\tfive\textra\n"),
        write(tmp_path / "d.jsonl", '{"en": "six", "de": "sechs"}\n{"de": "", "en": "\\n"}\n'),
    ]
    text = read_pairs(
        config(source=paths[:2], target=paths[2:4], pairs=paths[4:], fields=["en", "de"])
    )
    assert text.source == ["one", "two", "three", "four", "five", "six", "\n"]
    assert text.target == ["eins", "zwei", "drei", "vier", "f\u2028nf", "sechs", ""]
    assert [text.origin(row) for row in range(7)] == [
        (str(paths[0]), 1),
        (str(paths[0]), 2),
        (str(paths[1]), 1),
        (str(paths[4]), 2),
        (str(paths[4]), 3),
        (str(paths[5]), 1),
        (str(paths[5]), 2),
    ]


def test_tsv_by_position(tmp_path: Path) -> None:
    two = write(tmp_path / "two.tsv", "a\tb\nc\t\n")
    text = read_pairs(config(pairs=str(two)))
    assert (text.source, text.target) == (["a", "c"], ["b", ""])
    text = read_pairs(config(pairs=str(two), fields=["2", "1"]))
    assert (text.source, text.target) == (["b", ""], ["a", "c"])


def test_configurations_that_do_not_fit_together() -> None:
    for values, message in [
        ({"source": "a"}, "^data.source a has no data.target; "),
        ({"source": ["a"], "target": ["a", "b"]}, "data.source names 1 file but data.target 2"),
        ({"target": "a"}, "^data.target a has no data.source; give the file of its sources"),
        ({"valid_source": ["a"]}, "^data.valid_source a has no data.valid_target; "),
        ({"pairs": "a.jsonl.gz"}, "JSON Lines; name the fields"),
        ({"fields": ["en"]}, "data.fields needs two fields"),
        ({"max_ratio": float("nan")}, "max_ratio"),
        ({"max_length": 0}, "max_length"),
        ({"pairs": "a.tsv", "weights": [1.0, 2.0]}, "weights has 2 numbers for 1 corpora"),
        ({"pairs": "a.tsv", "weights": [0.0]}, "weights"),
        ({"pairs": "a.tsv", "weights": [float("inf")]}, "weights"),
        ({"sources": ["a"]}, "did you mean 'source'"),
    ]:
        with pytest.raises(ConfigError, match=message):
            validate(DataConfig, values)


def test_a_name_with_a_nul_is_no_name() -> None:
    with pytest.raises(ConfigError, match="it contains a NUL"):
        validate(DataConfig, {"text": ["a\0b"]})


def test_no_data_at_all() -> None:
    assert "no training data" in refusal(read_pairs, DataConfig())


def test_validation_files(tmp_path: Path) -> None:
    assert read_valid_pairs(DataConfig()) is None
    one, two = write(tmp_path / "one", "a\n"), write(tmp_path / "two", "b\n")
    valid = read_valid_pairs(config(valid_source=[one], valid_target=[two]))
    assert valid is not None and (valid.source, valid.target) == (["a"], ["b"])
    both = write(tmp_path / "both.tsv", "c\td\n")
    valid = read_valid_pairs(config(valid_pairs=[both]))
    assert valid is not None and (valid.source, valid.target) == (["c"], ["d"])


def test_real_files(data: Path) -> None:
    folder = data / "multi30k/raw"
    text = read_pairs(config(source=[folder / "train.en"], target=[folder / "train.de"]))
    assert len(text) == 29_000
    assert text.origin(28_999).line == 29_000
    assert json.dumps(text.source[0]).startswith('"Two young, White males')


def test_aligned_files_are_compared_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crosshead.data.parallel.parts.CHUNK", 3)
    one, two = write(tmp_path / "one", "a\n" * 20), write(tmp_path / "two", "b\n" * 8)
    assert f"{one} has 20 lines but {two} has 8" in refusal(read_aligned, one, two)
    assert f"{two} has 8 lines but {one} has 20" in refusal(read_aligned, two, one)
    assert read_aligned(two, two) == (["b"] * 8, ["b"] * 8)


@pytest.mark.parametrize("read", [read_pairs, read_valid_pairs])
def test_a_pipe_is_refused_since_text_is_read_again(
    read: Callable[[DataConfig], object], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    file, (out, into) = write(tmp_path / "en", "a\n"), os.pipe()
    try:
        for pipe in (tmp_path / "fifo", f"/dev/fd/{out}"):
            for source, target in ((pipe, file), (file, pipe)):
                names = {"source": [source], "target": [target]}
                valid = {f"valid_{key}": value for key, value in names.items()}
                said = refusal(read, config(**names, **valid))
                assert said.startswith(f"{pipe}: a pipe, but text is read several times; write it")
            said = refusal(read, config(pairs=[pipe], valid_pairs=[pipe]))
            assert said.startswith(f"{pipe}: a pipe")
    finally:
        os.close(out)
        os.close(into)


def test_an_old_domain_has_the_asked_share_of_an_epoch() -> None:
    files = {"source": ["a", "b"], "target": ["c", "d"], "valid_pairs": ["v"]}
    old = {"old_source": ["e"], "old_target": ["f"], "old_pairs": ["g"], "old_valid_pairs": ["w"]}

    def passes(counts: list[int], **more: object) -> list[float]:
        return validate(DataConfig, {**files, **more}).passes(counts)

    assert passes([10, 20]) == []
    assert passes([10, 20], weights=[2, 0.5]) == [2, 0.5]
    mixed = passes([10, 20, 40, 60], **old, old_ratio=0.5)
    assert mixed == [1, 1, 0.15, 0.15]  # 15 of the 100 old pairs beside 30 new ones
    both = passes([10, 20, 40, 60] * 2, **old, weights=[3, 1], directions="both")
    assert both == [3, 1, 0.5, 0.5] * 2
    assert validate(DataConfig, {**files, **old}).old_parts(8) == [2, 3, 6, 7]
    assert validate(DataConfig, files).old_parts(4) == []


def test_an_old_domain_needs_validation_files_of_both() -> None:
    old = {"old_source": ["e"], "old_target": ["f"]}
    valid = {"valid_source": ["v"], "valid_target": ["w"]}
    old_valid = {f"old_{key}": value for key, value in valid.items()}
    words = "mixing in an old domain needs validation files of both domains: give "
    with pytest.raises(ConfigError, match=f"{words}--valid-source and --valid-target"):
        config(**old, **old_valid)
    with pytest.raises(ConfigError, match=f"{words}data.old_valid_source"):
        config(**old, **valid)
    assert config(**old, **valid, **old_valid).has_old_validation
    assert config(**old_valid).has_old_validation and not config(**valid).has_old_validation
    with pytest.raises(ConfigError, match=r"data\.old_source e has no data\.old_target"):
        config(old_source=["e"])


def test_the_old_domain_comes_last(tmp_path: Path) -> None:
    for name in "abcdvw":
        (tmp_path / name).write_text(f"{name}\n")
    names = {key: [tmp_path / file] for key, file in zip(
        ("source", "target", "old_source", "old_target", "valid_source", "valid_target"), "abcdvw",
        strict=True,
    )}  # fmt: skip
    data = config(**names, old_valid_source=[tmp_path / "w"], old_valid_target=[tmp_path / "v"])
    assert read_pairs(data).source == ["a", "c"]
    new, old = read_valid_pairs(data), read_valid_pairs(data, old=True)
    assert new is not None and old is not None
    assert (new.source, old.source) == (["v"], ["w"])
    assert read_valid_pairs(config(**{key: names[key] for key in ("source", "target")})) is None


@pytest.mark.parametrize("fold", [[1], [0, 5], [6, 5], [1, 1], [1, 2, 3]])
def test_a_fold_is_a_number_of_several(fold: list[int]) -> None:
    with pytest.raises(ConfigError, match=r"data\.fold: expected the number of a fold and of all"):
        validate(DataConfig, {"fold": fold})


def test_a_fold_holds_out_its_own_validation_set() -> None:
    values = {"fold": [1, 2], "valid_source": ["a"], "valid_target": ["b"]}
    with pytest.raises(ConfigError, match=r"data\.fold holds out its own validation set; leave"):
        validate(DataConfig, values)
