"""The quick check of a run: the findings of all added checks together."""

from types import SimpleNamespace
from typing import Any

import pytest

from crosshead.text.parallel import quick_check as module
from crosshead.text.parallel.quick_check import Glance, quick_check


def test_findings_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "one": lambda *given: Glance(["a"], "", [3, 1]),
        "two": lambda *given: Glance(["b"], "half is wrong", [1]),
    }
    monkeypatch.setattr(module, "added", found.__class__(checks=found).get)
    nothing: Any = SimpleNamespace()
    assert quick_check(nothing, nothing, None) == Glance(["a", "b"], "half is wrong", [1, 3])
    monkeypatch.setattr(module, "added", lambda group: {})
    assert quick_check(nothing, nothing, None) == Glance([], "", [])
