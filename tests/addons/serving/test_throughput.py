import pytest

from crosshead.addons.serving import throughput as module
from crosshead.addons.serving.throughput import Throughput


def test_it_is_unknown_until_enough_was_done() -> None:
    throughput = Throughput()
    throughput.add(100.0, 63, 2.0)
    assert throughput.rate is None
    throughput.add(0.0, 1, 0.0)
    assert throughput.rate == pytest.approx(50.0)
    quick = Throughput()
    quick.add(100.0, 1000, 0.5)
    assert quick.rate is None


def test_it_follows_what_was_done_lately() -> None:
    throughput = Throughput()
    for _ in range(1000):
        throughput.add(1.0, 1, 0.1)
    assert throughput.rate == pytest.approx(10.0)
    for _ in range(1000):
        throughput.add(3.0, 1, 0.1)
    assert throughput.rate == pytest.approx(30.0, rel=0.02)


def test_a_pace_of_long_ago_is_unknown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    throughput = Throughput()
    throughput.add(100.0, 64, 2.0)
    monkeypatch.setattr(module, "_OLD_SECONDS", -1.0)
    assert throughput.rate is None
    throughput.add(300.0, 63, 3.0)  # the first of a new average
    monkeypatch.undo()
    assert throughput.rate is None
    throughput.add(0.0, 1, 0.0)
    assert throughput.rate == pytest.approx(100.0)
