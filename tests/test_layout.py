"""The tests mirror the package: every module has its test file."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE, TESTS = ROOT / "crosshead", ROOT / "tests"
MODULES = sorted(
    path.relative_to(PACKAGE)
    for path in PACKAGE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)


def fault(path: Path) -> str:
    """What is wrong with a test file; nothing if it has a test."""
    if not path.is_file():
        return f"{path.relative_to(ROOT)} is missing"
    text = path.read_text()
    has_test = "\ndef test_" in text or "\n    def test_" in text
    return "" if has_test else f"{path.relative_to(ROOT)} has no test"


def test_each_module_has_a_test_file_of_its_name_that_tests_it() -> None:
    """`crosshead/a/b.py` is tested in `tests/a/test_b.py`. There are no exceptions."""
    faults = [fault(TESTS / each.with_name(f"test_{each.name}")) for each in MODULES]
    assert not any(faults), "\n".join(filter(None, faults))


def test_the_modules_are_found() -> None:
    assert len(MODULES) > 150 and Path("attention/attend.py") in MODULES
