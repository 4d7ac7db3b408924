"""The tests mirror the package: every module has its test file."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE, TESTS = ROOT / "crosshead", ROOT / "tests"
MODULES = sorted(
    path.relative_to(PACKAGE)
    for path in PACKAGE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.as_posix())
def test_a_module_has_a_test_file_of_its_name_that_tests_it(module: Path) -> None:
    """`crosshead/a/b.py` is tested in `tests/a/test_b.py`. There are no exceptions."""
    path = TESTS / module.with_name(f"test_{module.name}")
    assert path.is_file(), f"{path.relative_to(ROOT)} is missing"
    assert "\ndef test_" in path.read_text() or "\n    def test_" in path.read_text(), (
        f"{path.relative_to(ROOT)} has no test"
    )


def test_the_modules_are_found() -> None:
    assert len(MODULES) > 150 and Path("attention/attend.py") in MODULES
