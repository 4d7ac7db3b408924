"""A queue that takes the sentences of several clients in turns."""

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

_MOST_REMEMBERED = 10_000
"""The largest number of clients without items whose counters are kept. Beyond it, the counters that
matter least are dropped."""


class Costly(Protocol):
    """An item of the queue."""

    @property
    def cost(self) -> float:
        """The work that the item takes, in any unit, above 0."""
        ...


Item = TypeVar("Item", bound=Costly)


@dataclass(eq=False)
class _Line(Generic[Item]):
    """The items of a client, their work, and the counter at which the first one is taken."""

    items: deque[Item]
    cost: float
    counter: float


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
        self._count = 0
        self._order: list[tuple[float, int, str]] = []  # counter, arrival, client
        self._arrivals = 0
        self._served = 0.0
        self._left: dict[str, float] = {}  # counters of clients without items, above `_served`
        self._leavers: list[tuple[float, str]] = []  # the same, smallest first, and outdated ones
        self.cost = 0.0
        """The work of all waiting items."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        for line in self._lines.values():
            yield from line.items

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
        new = list(items)
        if not new:
            return
        line = self._lines.get(client)
        if line is None:
            line = self._lines[client] = _Line(deque(), 0.0, self._start(client))
            self._left.pop(client, None)
            self._push(line.counter, client)
        line.items.extend(new)
        added = sum(item.cost for item in new)
        line.cost += added
        self.cost += added
        self._count += len(new)

    def remove(self, client: str, items: Collection[Item]) -> None:
        """Remove items of a client before they are taken. Items that were taken are ignored."""
        line = self._lines.get(client)
        if line is None:
            return
        gone = {id(item) for item in items}
        kept = deque(item for item in line.items if id(item) not in gone)
        removed = sum(item.cost for item in line.items if id(item) in gone)
        self._count -= len(line.items) - len(kept)
        self.cost -= removed
        line.cost -= removed
        line.items = kept
        if not kept:
            self._order = [entry for entry in self._order if entry[2] != client]
            heapq.heapify(self._order)
            self._leave(client, line.counter)

    def ahead(self, client: str, cost: float) -> float:
        """Return the work that comes before new work of a client is done, without the new work.

        Each other client gets its turns until its counter is where the new work ends.
        """
        own = self._lines.get(client)
        waits = 0.0 if own is None else own.cost
        end = (self._start(client) if own is None else own.counter) + waits + cost
        return waits + sum(
            min(line.cost, max(0.0, end - line.counter))
            for line in self._lines.values()
            if line is not own
        )

    def first(self) -> Item | None:
        """Return the item that comes next, or None."""
        return self._lines[self._order[0][2]].items[0] if self._order else None

    def pop(self) -> Item:
        """Remove and return the item that comes next."""
        self._served, _, client = heapq.heappop(self._order)
        line = self._lines[client]
        item = line.items.popleft()
        self.cost -= item.cost
        line.cost -= item.cost
        line.counter += item.cost
        self._count -= 1
        if line.items:
            self._push(line.counter, client)
        else:
            self._leave(client, line.counter)
        self._forget()
        return item

    def _start(self, client: str) -> float:
        """Return the counter at which a client without items begins."""
        return max(self._served, self._left.get(client, 0.0))

    def _push(self, counter: float, client: str) -> None:
        self._arrivals += 1
        heapq.heappush(self._order, (counter, self._arrivals, client))

    def _leave(self, client: str, counter: float) -> None:
        """Remove a client without items, and remember its counter."""
        del self._lines[client]
        self._left[client] = counter
        heapq.heappush(self._leavers, (counter, client))
        self._forget()

    def _forget(self) -> None:
        """Drop counters that make no difference any more, and those beyond the largest number."""
        while self._leavers and (
            self._leavers[0][0] <= self._served or len(self._leavers) > _MOST_REMEMBERED
        ):
            counter, client = heapq.heappop(self._leavers)
            if self._left.get(client) == counter:
                del self._left[client]
