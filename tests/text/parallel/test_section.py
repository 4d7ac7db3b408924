import pytest

from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.text.parallel.section import DataConfig
from tests.text.written import config


def test_configurations_that_do_not_fit_together() -> None:
    for values, message in [
        ({"source": "a"}, "^data.source names 1 file but data.target 0; "),
        ({"source": ["a"], "target": ["a", "b"]}, "data.target names 2 files but data.source 1"),
        ({"target": "a"}, "^data.target names 1 file but data.source 0; "),
        ({"valid_source": ["a"]}, "^data.valid_source names 1 file but data.valid_target 0; "),
        ({"pairs": "a.jsonl.gz"}, "JSON Lines; name the fields"),
        ({"fields": ["en"]}, "data.fields needs two fields"),
        ({"old_fields": ["en", "en "]}, "data.old_fields needs two fields"),
        (
            {"valid_pairs": "v", "old_pairs": "o.jsonl", "old_valid_pairs": "w"},
            r"data\.old_pairs: "
            r"o\.jsonl is JSON Lines; name the fields of source and target with --fields",
        ),
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
    words = "mixing in an old domain needs validation files of both domains: "
    with pytest.raises(ConfigError, match=words):
        config(**old, **old_valid)
    with pytest.raises(ConfigError, match=words):
        config(**old, **valid)
    assert config(**old, **valid, **old_valid).has_old_validation
    assert config(**old_valid).has_old_validation and not config(**valid).has_old_validation
    with pytest.raises(ConfigError, match=r"data\.old_source names 1 file but data\.old_target 0"):
        config(old_source=["e"])


@pytest.mark.parametrize("fold", [[1], [0, 5], [6, 5], [1, 1], [1, 2, 3]])
def test_a_fold_is_a_number_of_several(fold: list[int]) -> None:
    with pytest.raises(ConfigError, match=r"data\.fold: expected the number of a fold and of all"):
        validate(DataConfig, {"fold": fold})


def test_a_fold_holds_out_its_own_validation_set() -> None:
    values = {"fold": [1, 2], "valid_source": ["a"], "valid_target": ["b"]}
    with pytest.raises(ConfigError, match=r"data\.fold holds out its own validation set; leave"):
        validate(DataConfig, values)
