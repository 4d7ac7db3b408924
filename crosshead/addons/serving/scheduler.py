"""Continuous batching: sentences of all requests join and leave a running batch at every step."""

import logging
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from crosshead.addons.serving.errors import DeadlineExceeded, Failed, Overloaded, TooLong
from crosshead.addons.serving.fair_queue import FairQueue
from crosshead.addons.serving.worker import Sentence, Worker

_logger = logging.getLogger(__name__)

_ADMITTED_PART = 0.4
"""The part of the time until its deadline that a request may be expected to take, with its wait.
Later requests take turns with it and delay it, and work that misses its deadline is lost.
docs/reliability.md has the goodput with this part and with one half."""

_LONGEST_RETRY = 60
"""The largest Retry-After in seconds."""

_LOST_SECONDS = 20.0
"""The seconds of one step after which a worker is replaced if nobody waits for its sentences any
more. A step of CTranslate2 is a whole batch, so a long one shows no fault by itself."""

_LAST_STEP = 2.0
"""The seconds in which a thread may end its last step when the scheduler stops."""

_WATCH_SECONDS = 0.5
"""The seconds between two looks at the workers."""

_MOST_HANGING = 8
"""The largest number of threads that hang. Beyond it, no worker is replaced: each keeps a core and
memory, and the next one would hang as well."""

_MEMORY = 10.0
"""The seconds after which a measurement counts for a third (1/e)."""

_LEAST_SECONDS, _FEWEST = 1.0, 64
"""Seconds and sentences from which on the throughput is known. Before, a batch that fills up looks
slow: its sentences end late and together."""

_OLD_SECONDS = 600.0
"""The seconds without a measurement after which the throughput is unknown again. What else the
machine did then says nothing about now, and a text that is refused as too long is tried again."""


class Throughput:
    """A moving average of the work a second.

    The unit of work is that of `Sentence.cost`: (source tokens + 1) x beam. Only what is done while
    sentences wait counts, because a batch that is not full does less.
    """

    def __init__(self) -> None:
        self._work = self._seconds = 0.0
        self._finished = 0
        self._last = time.monotonic()

    def add(self, work: float, finished: int, seconds: float) -> None:
        """Count work."""
        if self._old:
            self._work, self._seconds, self._finished = 0.0, 0.0, 0
        kept = math.exp(-seconds / _MEMORY)
        self._work = kept * self._work + work
        self._seconds = kept * self._seconds + seconds
        self._finished += finished
        self._last = time.monotonic()

    @property
    def rate(self) -> float | None:
        """The work a second, or None if too little was done lately."""
        if self._seconds < _LEAST_SECONDS or self._finished < _FEWEST or self._old:
            return None
        return self._work / self._seconds

    @property
    def _old(self) -> bool:
        return time.monotonic() - self._last > _OLD_SECONDS


@dataclass
class Limits:
    """The limits of a scheduler.

    Attributes:
        sentences: The largest number of sentences in one batch.
        memory: The largest size of the states of a worker's batches, in bytes.
        waiting: The largest number of sentences that wait, for all clients. A request is taken
            whole if there is room for one of its sentences, so a long text may exceed it.
        waiting_each: The largest number of sentences that wait for one client; likewise.
    """

    sentences: int = 32
    memory: float = 256 * 2**20
    waiting: int = 10_000
    waiting_each: int = 5_000


class Scheduler:
    """Worker threads that decode the sentences of all clients.

    Each worker has one running batch per engine, and computes with one CPU thread. Before every
    step it removes what is withdrawn or late, and fills up its batches from the queue, in fair
    order, as long as the limits allow and it has fewer sentences than its equal share of all,
    rounded up. Without the share, one worker would take all that wait, and leave the others idle.
    A sentence that does not fit yet waits, and nothing overtakes it. A sentence that needs more
    than the whole memory waits until the worker has no other.

    Another thread watches the workers. It replaces a worker whose thread has ended, and its
    sentences fail. It replaces a worker that hangs once nobody waits for its sentences any more.
    """

    def __init__(self, workers: int = 1, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._queue: FairQueue[Sentence] = FairQueue()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._throughput = Throughput()
        self.steps = 0
        """The number of decoding steps so far."""
        self._names = 0
        self._hanging: list[Worker] = []
        self._workers = [self._new_worker() for _ in range(workers)]
        for worker in self._workers:
            worker.start()
        self._watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._watcher.start()

    @property
    def waiting(self) -> int:
        """The number of sentences that wait."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """The number of sentences in the batches."""
        return sum(worker.running for worker in self._workers)

    @property
    def alive(self) -> bool:
        """True if every worker runs, and none hangs while nobody waits for its sentences."""
        return not any(each.ended or each.hangs_for_nobody(_LOST_SECONDS) for each in self._workers)

    def check(self, client: str, work: float, deadline: float) -> None:
        """Refuse a request for which there is no time, before its texts are read."""
        with self._changed:
            self._check(client, work, deadline)
            self._check_length(work, deadline)

    def submit(
        self, client: str, sentences: Sequence[Sentence], times: float = 1.0, admitted: bool = False
    ) -> None:
        """Add the sentences of a request, all or none.

        A request is taken if there is room for one sentence, so that a long text is not refused for
        good. While sentences wait, it is refused if it would probably take more than a part of its
        time (`_ADMITTED_PART`).
        """
        with self._changed:
            if self._stopping.is_set():
                raise Failed("the server stops")
            if not admitted:
                work = times * sum(each.cost for each in sentences)
                deadline = min(each.deadline for each in sentences)
                self._check_length(work, deadline)
                self._check(client, work, deadline)
            self._queue.add(client, sentences)
            self._changed.notify(len(sentences))

    def withdraw(self, client: str, sentences: Sequence[Sentence]) -> None:
        """Remove sentences that nobody waits for; those in a batch leave before its next step."""
        with self._changed:
            for each in sentences:
                each.withdrawn = True
            self._queue.remove(client, sentences)

    def stop(self, seconds: float = 0.0) -> None:
        """Stop: sentences that are known are decoded, new ones are refused."""
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        self._watcher.join()
        end = time.monotonic() + seconds
        for worker in self._workers:
            worker.join(max(0.0, end - time.monotonic()))
        with self._changed:
            left = [self._queue.pop() for _ in range(len(self._queue))]
        for worker in self._workers:
            left += worker.give_up()
        for sentence in left:
            sentence.answer(Failed("the server stops"))
        # A thread that is inside PyTorch when Python ends would abort the process.
        for worker in self._workers:
            worker.join(_LAST_STEP)

    def _check_length(self, work: float, deadline: float) -> None:
        rate, allowed = self._throughput.rate, deadline - time.monotonic()
        if rate and work / rate > allowed > 0:
            raise TooLong(work / rate, allowed)

    def _check(self, client: str, work: float, deadline: float) -> None:
        rate, most, own = self._throughput.rate, self.limits, self._queue.waiting(client)
        if own >= most.waiting_each or len(self._queue) >= most.waiting:
            seconds = _retry(self._queue.cost / rate if rate else 1.0)
            raise Overloaded(seconds, own if own >= most.waiting_each else 0)
        if not rate or not self._queue:
            return
        ahead = self._queue.ahead(client, work) + sum(each.cost for each in self._workers)
        excess = (ahead + work) / rate - _ADMITTED_PART * (deadline - time.monotonic())
        if excess > 0:
            mostly_own = self._queue.cost_of(client) > ahead / 2
            raise Overloaded(_retry(excess), own if mostly_own else 0)

    def _new_worker(self) -> Worker:
        self._names += 1
        return Worker(f"decoder-{self._names}", self._fill, self._note)

    def _fill(self, worker: Worker) -> bool:
        """Wait for work, and fill the batches of a worker; return False at its end."""
        with self._changed:
            while not worker.lost:
                self._admit(worker)
                if worker.running:
                    return True
                if self._stopping.is_set():
                    return False
                worker.rest()
                self._changed.wait()
                worker.beat()
            return False

    def _admit(self, worker: Worker) -> None:
        """Give a worker its share of all sentences, as long as the next one fits."""
        share = math.ceil((len(self._queue) + self.running) / len(self._workers))
        while worker.running < share and (first := self._queue.first()) is not None:
            if first.over(time.monotonic()):
                self._queue.pop().answer(DeadlineExceeded())
                continue
            try:
                if not worker.take(first, self.limits.sentences, self.limits.memory):
                    return
            except Exception as error:  # an engine that gives no batch
                _logger.error("a sentence found no batch: %s", type(error).__name__)
                first.answer(Failed())
            self._queue.pop()

    def _note(self, done: Sequence[Sentence], seconds: float) -> None:
        """Count a step."""
        with self._changed:
            self.steps += 1
            if self._queue:
                work = sum(each.cost for each in done)
                self._throughput.add(work, len(done), seconds / len(self._workers))

    def _watch(self) -> None:
        """Replace workers whose threads have ended or hang, until the scheduler stops."""
        while not self._stopping.wait(_WATCH_SECONDS):
            for place, worker in enumerate(self._workers):
                if worker.ended or worker.hangs_for_nobody(_LOST_SECONDS):
                    self._replace(place, worker)

    def _replace(self, place: int, worker: Worker) -> None:
        for sentence in worker.give_up():
            sentence.answer(Failed())
        self._hanging = [each for each in (*self._hanging, worker) if not each.ended]
        if len(self._hanging) > _MOST_HANGING:
            self._hanging.remove(worker)
            return
        _logger.error("a thread that decodes is replaced")
        self._workers[place] = self._new_worker()
        self._workers[place].start()


def _retry(seconds: float) -> int:
    return min(_LONGEST_RETRY, max(1, math.ceil(seconds)))
