from crosshead.data.checks.suspects import KINDS, REPAIRED


def test_repaired_kinds_are_kinds() -> None:
    assert set(REPAIRED) < set(KINDS)
