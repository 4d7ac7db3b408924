from dataclasses import dataclass

import pytest

from crosshead.addons.serving import fair_queue
from crosshead.addons.serving.fair_queue import FairQueue


@dataclass(frozen=True)
class Piece:
    name: str
    cost: float = 1.0


def pieces(name: str, count: int, cost: float = 1.0) -> list[Piece]:
    return [Piece(f"{name}{number}", cost) for number in range(count)]


def taken(queue: FairQueue[Piece], count: int) -> list[str]:
    return [queue.pop().name for _ in range(count)]


def test_clients_take_turns_and_each_keeps_its_order() -> None:
    queue: FairQueue[Piece] = FairQueue()
    queue.add("book", pieces("b", 1000))
    queue.add("note", pieces("n", 2))
    assert taken(queue, 5) == ["b0", "n0", "b1", "n1", "b2"]


def test_work_counts_and_not_the_number_of_items() -> None:
    queue: FairQueue[Piece] = FairQueue()
    queue.add("long", pieces("l", 10, cost=5.0))
    queue.add("short", pieces("s", 10))
    names = taken(queue, 12)
    assert sum(name.startswith("s") for name in names) == 10


def test_who_comes_late_is_next_but_saves_up_nothing() -> None:
    queue: FairQueue[Piece] = FairQueue()
    queue.add("book", pieces("b", 100))
    taken(queue, 50)
    queue.add("note", pieces("n", 40))
    names = taken(queue, 40)
    assert names[:2] == ["b50", "n0"] or names[:2] == ["n0", "b50"]
    assert 19 <= sum(name.startswith("n") for name in names) <= 21


def test_nobody_starves_among_clients_that_keep_coming() -> None:
    queue: FairQueue[Piece] = FairQueue()
    queue.add("patient", pieces("p", 1))
    names = []
    for number in range(5):
        queue.add(f"new{number}", pieces("x", 1))
        names.append(queue.pop().name)
    assert "p0" in names[:2]


def test_it_knows_what_comes_before_new_work() -> None:
    queue: FairQueue[Piece] = FairQueue()
    queue.add("book", pieces("b", 100))
    queue.add("note", pieces("n", 3))
    assert queue.ahead("new", 1.0) == 2.0 and queue.ahead("new", 5.0) == 5.0 + 3.0
    assert queue.ahead("note", 2.0) == 3.0 + 5.0  # its own work, and as much of the book
    assert queue.ahead("book", 1.0) == 103.0
    before = taken(queue, 9)
    queue.add("new", pieces("x", 4))
    assert len(before) == 9 and queue.cost_of("new") == 4.0
    ahead = queue.ahead("late", 2.0)
    queue.add("late", pieces("l", 2))
    order = taken(queue, len(queue))
    assert order.index("l1") - 1 <= ahead <= order.index("l1") + 1


def test_it_knows_its_length_and_work() -> None:
    queue: FairQueue[Piece] = FairQueue()
    queue.add("a", pieces("a", 3, cost=2.0))
    queue.add("b", [])
    assert (len(queue), queue.cost, queue.waiting("a"), queue.waiting("b")) == (3, 6.0, 3, 0)
    assert queue.first() == Piece("a0", 2.0)
    taken(queue, 3)
    assert (len(queue), queue.cost, queue.first()) == (0, 0.0, None)


def test_a_client_with_one_item_at_a_time_gets_no_more_than_its_share() -> None:
    queue: FairQueue[Piece] = FairQueue()
    queue.add("book", pieces("b", 1000))
    names = []
    for _ in range(120):
        if not queue.waiting("note"):
            queue.add("note", pieces("n", 1, cost=5.0))
        names.append(queue.pop().name)
    assert 19 <= sum(name == "n0" for name in names) <= 21  # 100 of the work of each


def test_the_counters_of_clients_that_left_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "_MOST_REMEMBERED", 10)
    queue: FairQueue[Piece] = FairQueue()
    for number in range(50):
        queue.add(f"other{number}", pieces("o", 1, cost=100.0))
        queue.pop()
    assert list(queue._left) == [f"other{number}" for number in range(40, 50)]


def test_items_are_removed_wherever_they_wait() -> None:
    queue: FairQueue[Piece] = FairQueue()
    gone, kept = pieces("g", 5, cost=2.0), pieces("k", 3)
    queue.add("a", kept[:1])
    queue.add("b", gone + kept[1:])
    queue.remove("b", gone)
    queue.remove("nobody", gone)
    assert (len(queue), queue.cost, queue.cost_of("b"), queue.waiting("b")) == (3, 3.0, 2.0, 2)
    queue.add("c", gone)
    queue.remove("c", gone)
    assert taken(queue, 3) == ["k0", "k1", "k2"] and queue.first() is None
