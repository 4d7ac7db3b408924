"""What the tests of reliability share: where their counts go."""

from collections.abc import Callable

import pytest


@pytest.fixture
def record(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Prints a count where whoever runs the tests sees it; docs/reliability.md quotes them."""

    def say(line: str) -> None:
        with capfd.disabled():
            print(f"\n{line}")

    return say
