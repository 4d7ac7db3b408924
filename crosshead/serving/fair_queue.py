"""A queue that takes the sentences of several clients in turns."""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar


class Costly(Protocol):
    """An item of the queue."""

    @property
    def cost(self) -> float:
        """The work that the item takes, in any unit, above 0."""
        ...


Item = TypeVar("Item", bound=Costly)


class FairQueue(Generic[Item]):
    """Items of clients; the client that has been served least comes next.

    Each client has a counter of the work that was taken from it. The smallest counter is next, so
    a client with ten thousand items does not hold up a client with one. A client that comes anew
    starts at the counter of the item that was taken last: nobody saves up work. The items of one
    client come in their order. The queue is not locked.

    Reference:
        Goyal et al. 1996, "Start-time fair queueing"; Sheng et al. 2024, "Fairness in serving large
        language models", section 3.
    """

    def __init__(self) -> None:
        self._items: dict[str, deque[Item]] = {}
        self._costs: dict[str, float] = {}
        self._count = 0
        self._order: list[tuple[float, int, str]] = []  # counter, arrival, client
        self._served = 0.0
        self._arrivals = 0
        self.cost = 0.0
        """The work of all waiting items."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        for items in self._items.values():
            yield from items

    def waiting(self, client: str) -> int:
        """Return the number of items of a client.

        Args:
            client: The client.
        """
        return len(self._items.get(client, ()))

    def cost_of(self, client: str) -> float:
        """Return the work of the items of a client.

        Args:
            client: The client.
        """
        return self._costs.get(client, 0.0)

    def add(self, client: str, items: Iterable[Item]) -> None:
        """Add items behind those of their client.

        Args:
            client: The client.
            items: The items.
        """
        new = list(items)
        if not new:
            return
        if client not in self._items:
            self._items[client] = deque()
            self._costs[client] = 0.0
            self._push(self._served, client)
        self._items[client].extend(new)
        added = sum(item.cost for item in new)
        self._costs[client] += added
        self.cost += added
        self._count += len(new)

    def ahead(self, client: str, cost: float) -> float:
        """Return the work that comes before new work of a client is done, without the new work.

        Each other client gets its turns until it has had as much as this one.

        Args:
            client: The client.
            cost: The new work.
        """
        own = self.cost_of(client)
        return sum(min(each, own + cost) for each in self._costs.values())

    def first(self) -> Item | None:
        """Return the item that comes next, or None."""
        return self._items[self._order[0][2]][0] if self._order else None

    def pop(self) -> Item:
        """Remove and return the item that comes next.

        Raises:
            IndexError: If the queue is empty.
        """
        counter, _, client = heapq.heappop(self._order)
        items = self._items[client]
        item = items.popleft()
        self._served = counter
        self.cost -= item.cost
        self._costs[client] -= item.cost
        self._count -= 1
        if items:
            self._push(counter + item.cost, client)
        else:
            del self._items[client], self._costs[client]
        return item

    def _push(self, counter: float, client: str) -> None:
        self._arrivals += 1
        heapq.heappush(self._order, (counter, self._arrivals, client))
