"""A queue that takes the sentences of several clients in turns."""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

_MOST_REMEMBERED = 10_000
"""The largest number of clients without items whose counters are kept, so that the memory of all
clients together is bounded."""


class Costly(Protocol):
    """An item of the queue."""

    @property
    def cost(self) -> float:
        """The work that the item takes, in any unit, above 0."""
        ...


Item = TypeVar("Item", bound=Costly)


@dataclass(eq=False)
class _Line(Generic[Item]):
    """The items of a client, and the counter at which the first one is taken."""

    counter: float
    items: deque[Item] = field(default_factory=deque)
    cost: float = 0.0


class FairQueue(Generic[Item]):
    """Items of clients; the client that has been served least comes next.

    Each client has a counter of the work that was taken from it. The smallest counter is next, so
    a client with ten thousand items does not hold up a client with one. A client that comes anew
    starts at the counter of the item that was taken last: nobody saves up work. A client that comes
    back starts at its own counter if that is larger: nobody gets more turns by adding its items
    one at a time. The items of one client come in their order. The queue is not locked.

    Reference:
        Goyal et al. 1996, "Start-time fair queueing", section 2; Sheng et al. 2024, "Fairness in
        serving large language models", section 3.
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line[Item]] = {}
        self._served = 0.0
        self._left: dict[str, float] = {}  # counters of clients without items

    def __len__(self) -> int:
        return sum(len(line.items) for line in self._lines.values())

    @property
    def cost(self) -> float:
        """The work of all waiting items."""
        return sum(line.cost for line in self._lines.values())

    def waiting(self, client: str) -> int:
        """Return the number of items of a client."""
        line = self._lines.get(client)
        return 0 if line is None else len(line.items)

    def cost_of(self, client: str) -> float:
        """Return the work of the items of a client."""
        line = self._lines.get(client)
        return 0.0 if line is None else line.cost

    def add(self, client: str, items: Iterable[Item]) -> None:
        """Add items behind those of their client."""
        for item in items:
            if client not in self._lines:
                self._lines[client] = _Line(self._start(client))
                self._left.pop(client, None)
            self._lines[client].items.append(item)
            self._lines[client].cost += item.cost

    def remove(self, client: str, items: Collection[Item]) -> None:
        """Remove items of a client before they are taken. Items that were taken are ignored."""
        line = self._lines.get(client)
        if line is None:
            return
        gone = {id(item) for item in items}
        line.items = deque(item for item in line.items if id(item) not in gone)
        line.cost = sum(item.cost for item in line.items)
        self._leave_if_empty(client)

    def ahead(self, client: str, cost: float) -> float:
        """Return the work that comes before new work of a client is done, without the new work.

        Each other client gets its turns until its counter is where the new work ends.
        """
        own = self._lines.get(client) or _Line(self._start(client))
        end = own.counter + own.cost + cost
        return own.cost + sum(
            min(line.cost, max(0.0, end - line.counter))
            for line in self._lines.values()
            if line is not own
        )

    def first(self) -> Item | None:
        """Return the item that comes next, or None."""
        return self._lines[self._next()].items[0] if self._lines else None

    def pop(self) -> Item:
        """Remove and return the item that comes next."""
        client = self._next()
        line = self._lines[client]
        item = line.items.popleft()
        self._served = line.counter
        line.counter += item.cost
        line.cost -= item.cost
        self._leave_if_empty(client)
        return item

    def _next(self) -> str:
        """Return the client whose counter is the smallest, first come, first served."""
        return min(self._lines, key=lambda client: self._lines[client].counter)

    def _start(self, client: str) -> float:
        """Return the counter at which a client without items begins."""
        return max(self._served, self._left.get(client, 0.0))

    def _leave_if_empty(self, client: str) -> None:
        """Remove a client without items, and remember its counter."""
        if not self._lines[client].items:
            self._left[client] = self._lines.pop(client).counter
            if len(self._left) > _MOST_REMEMBERED:
                del self._left[next(iter(self._left))]  # who left longest ago
