from pathlib import Path

import pytest

from crosshead.bundle.io import save_bundle
from crosshead.bundle.text_bundle import TextBundleConfig
from crosshead.bundle.texts import read_parts
from crosshead.errors import DamagedBundle
from tests.bundle.stored import STORED
from tests.bundle.text_bundles import bundle_of


@pytest.mark.parametrize("key", ["source_vocabulary", "target_vocabulary", "longest_source"])
def test_impossible_sizes_are_refused_by_their_key(key: str) -> None:
    values = bundle_of().config.model_dump() | {key: 0}
    with pytest.raises(ValueError, match=key):
        TextBundleConfig.model_validate(values)


def test_the_parts_of_a_bundle_are_those_of_the_whole(tmp_path: Path) -> None:
    bundle = bundle_of()
    save_bundle(tmp_path / "bundle", bundle, "card")
    parts = read_parts(tmp_path / "bundle")
    assert parts is not None and parts.marks == bundle.marks
    assert parts.config.model_dump().items() <= bundle.config.model_dump().items()
    assert parts.source_tokenizer.encode("ab") == bundle.source_tokenizer.encode("ab")
    assert read_parts(STORED) is None  # without checksums
    (tmp_path / "bundle" / "source.json").write_text("{}")
    with pytest.raises(DamagedBundle, match=r"source\.json"):
        read_parts(tmp_path / "bundle")
