from pathlib import Path

from crosshead.bundle.files import bundle_files, card_was_changed, files_in_use, verify_bundle
from crosshead.bundle.packing import pack
from crosshead.cli.reports import bundle_facts
from crosshead.tasks.registry import load_bundle


def test_a_bundle_without_its_card_is_described_and_packed(sealed: Path) -> None:
    (sealed / "README.md").unlink()
    assert "README.md" not in bundle_files(sealed) and card_was_changed(sealed)
    packed = pack(sealed, sealed.with_name("a.crosshead.zip"))
    assert "README.md" not in bundle_files(packed)
    for place in (sealed, packed):
        rows = dict(bundle_facts(place, load_bundle(place)))
        assert "changed or removed" in rows["card"]


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
