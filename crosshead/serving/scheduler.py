"""Continuous batching: sentences of all requests join and leave a running batch at every step."""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from crosshead.decoding.candidates import Hypothesis
from crosshead.serving.engine import DecodingBatch, Engine, Query
from crosshead.serving.fair_queue import FairQueue
from crosshead.serving.pace import Pace

_logger = logging.getLogger(__name__)

_PART = 0.5
"""The part of the time until its deadline that a request may be expected to take. Later requests
take turns with it and delay it, and work that misses its deadline is lost."""

_LONGEST_RETRY = 60
"""The largest Retry-After in seconds."""


class Refused(Exception):
    """Too much work waits; the request can be sent again.

    Args:
        seconds: When to try again.
        own: True if most of that work is the client's own.
    """

    def __init__(self, seconds: int, own: bool) -> None:
        super().__init__(f"too many sentences wait; try again in {seconds} s")
        self.seconds, self.own = seconds, own


class Late(Exception):
    """A sentence was not finished by its deadline."""


class Failed(Exception):
    """A sentence could not be decoded, because a batch failed or the server stops."""


Result = list[Hypothesis] | Exception


@dataclass(eq=False)
class Sentence:
    """A sentence to decode.

    Attributes:
        engine: The engine that decodes it.
        ids: Its token ids, without eos.
        limit: The longest output in tokens, eos counted.
        wanted: The number of hypotheses.
        deadline: The time by which it must be done, by `time.monotonic`.
        done: Called once with the hypotheses, best first, or with an exception, in the thread of
            the scheduler. It is not called after `withdrawn` was set.
        scored: False if nobody reads the log-probabilities.
        withdrawn: True if nobody waits for it any more.
    """

    engine: Engine
    ids: Sequence[int]
    limit: int
    wanted: int
    deadline: float
    done: Callable[[Result], None]
    scored: bool = True
    withdrawn: bool = False

    @property
    def cost(self) -> float:
        """The work that it takes: its tokens, for as many rows as the search has."""
        return (len(self.ids) + 1.0) * self.engine.beam


@dataclass
class Limits:
    """The limits of a scheduler.

    Attributes:
        sentences: The largest number of sentences in one batch.
        memory: The largest size of the states of a worker's batches, in bytes.
        waiting: The largest number of sentences that wait, for all clients.
        waiting_each: The largest number of sentences that wait for one client.
    """

    sentences: int = 32
    memory: float = 256 * 2**20
    waiting: int = 10_000
    waiting_each: int = 5_000


@dataclass
class _Batch:
    """A running batch: the sentences in it by number, and those that join at its next step."""

    engine: Engine
    running: DecodingBatch
    sentences: dict[int, Sentence] = field(default_factory=dict)
    joining: list[Sentence] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.sentences) + len(self.joining)

    @property
    def memory(self) -> float:
        """The bytes of the batch when its outputs are as long as they may be."""
        every = [*self.sentences.values(), *self.joining]
        if not every:
            return 0.0
        source = max(len(each.ids) + 1 for each in every)
        target = max(each.limit for each in every)
        return self.engine.bytes(len(every), source, target)


class Scheduler:
    """Worker threads that decode the sentences of all clients.

    Each worker has one running batch per engine, and computes with one CPU thread. Before every
    step it removes what is withdrawn or late, and fills up its batches from the queue, in fair
    order, as far as the limits allow. A sentence that does not fit yet waits, and nothing overtakes
    it. A sentence that is larger than the whole budget is decoded alone.

    Args:
        workers: The number of threads.
        limits: The limits.
    """

    def __init__(self, workers: int = 1, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._queue: FairQueue[Sentence] = FairQueue()
        self._changed = threading.Condition()
        self._stopping = False
        self._number = 0
        self._pace = Pace()
        self._running_cost = 0.0
        self.running = 0
        """The number of sentences in the batches."""
        self.steps = 0
        """The number of decoding steps so far."""
        self._threads = [
            threading.Thread(target=self._work, name=f"decoder-{n}", daemon=True)
            for n in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """The number of sentences that wait."""
        return len(self._queue)

    @property
    def alive(self) -> bool:
        """True if every worker is running."""
        return all(thread.is_alive() for thread in self._threads)

    def waiting_of(self, client: str) -> int:
        """Return the number of sentences of a client that wait.

        Args:
            client: The client.
        """
        return self._queue.waiting(client)

    def check(self, client: str, work: float, deadline: float) -> None:
        """Refuse a request for which there is no time, before its texts are read.

        Args:
            client: The client.
            work: The expected work.
            deadline: The time by which the request must be answered, by `time.monotonic`.

        Raises:
            Refused: If too many sentences wait, or the deadline would be missed.
        """
        with self._changed:
            self._check(client, work, deadline)

    def submit(self, client: str, sentences: Sequence[Sentence], times: int = 1) -> None:
        """Add the sentences of a request, all or none.

        A request is taken if there is room for one sentence, so that a long text is not refused for
        good. It is refused if sentences wait and it would probably miss its deadline.

        Args:
            client: The client, whose sentences come in turns with those of others.
            sentences: The sentences.
            times: How often the request brings as much work, this time included. With 0 it was
                taken before, and is taken again.

        Raises:
            Refused: If too many sentences wait, or the deadline would be missed.
            Failed: If the scheduler stops.
        """
        with self._changed:
            if self._stopping:
                raise Failed("the server stops")
            if times:
                work = times * sum(each.cost for each in sentences)
                self._check(client, work, min(each.deadline for each in sentences))
            self._queue.add(client, sentences)
            self._changed.notify(len(sentences))

    def _check(self, client: str, work: float, deadline: float) -> None:
        rate, most = self._pace.rate, self.limits
        own = self._queue.waiting(client) >= most.waiting_each
        if own or len(self._queue) >= most.waiting:
            raise Refused(_retry(self._queue.cost / rate if rate else 1.0), own)
        if not rate or not self._queue:
            return
        ahead = self._queue.ahead(client, work) + self._running_cost
        excess = (ahead + work) / rate - _PART * (deadline - time.monotonic())
        if excess > 0:
            raise Refused(_retry(excess), own=self._queue.cost_of(client) > ahead / 2)

    def stop(self, seconds: float = 0.0) -> None:
        """Stop: sentences that are known are decoded, new ones are refused.

        Args:
            seconds: How long to wait for the sentences. Those left then fail.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        with self._changed:
            while self._queue.first() is not None:
                _answer(self._queue.pop(), Failed("the server stops"))

    def _work(self) -> None:
        torch.set_num_threads(1)  # a step is too small to be shared among threads
        batches: dict[Engine, _Batch] = {}
        with torch.inference_mode():
            while self._wait(batches):
                for batch in list(batches.values()):
                    try:
                        self._turn(batch)
                    except Exception as error:  # a batch that fails must not end the server
                        _logger.error("a batch failed: %s", type(error).__name__)
                        self._fail(batch)
                    if not batch:
                        del batches[batch.engine]

    def _wait(self, batches: dict[Engine, _Batch]) -> bool:
        """Wait for work, and fill the batches from the queue; return False at the end."""
        with self._changed:
            while not batches:
                self._admit(batches)
                if batches:
                    return True
                if self._stopping:
                    return False
                self._changed.wait()
            self._admit(batches)
        return True

    def _admit(self, batches: dict[Engine, _Batch]) -> None:
        """Take sentences from the queue as long as the next one fits."""
        while (first := self._queue.first()) is not None:
            if first.withdrawn or first.deadline <= time.monotonic():
                _answer(self._queue.pop(), Late("the deadline passed while the sentence waited"))
                continue
            engine = first.engine
            batch = batches.get(engine) or _Batch(engine, engine.batch())
            batch.joining.append(first)
            every = {**batches, engine: batch}.values()
            alone = len(batch) == 1 and len(every) == 1
            fits = sum(each.memory for each in every) <= self.limits.memory
            if len(batch) > self.limits.sentences or not (fits or alone):
                batch.joining.pop()
                return
            batches[engine] = batch
            self._queue.pop()
            self.running += 1
            self._running_cost += first.cost

    def _turn(self, batch: _Batch) -> None:
        """Remove what nobody waits for, let sentences join, and take one step."""
        now = time.monotonic()
        gone = {
            number: each
            for number, each in batch.sentences.items()
            if each.withdrawn or each.deadline <= now
        }
        if gone:
            batch.running.drop(list(gone))
            late = Late("the deadline passed while the sentence was decoded")
            self._finish(batch, dict.fromkeys(gone, late))
        done = self._join(batch) if batch.joining else []
        if len(batch.running):
            done += self._finish(batch, batch.running.step())
        with self._changed:
            self.steps += 1
            if self._queue:
                seconds = (time.monotonic() - now) / len(self._threads)
                self._pace.add(sum(each.cost for each in done), len(done), seconds)

    def _join(self, batch: _Batch) -> list[Sentence]:
        """Add the sentences that wait to join, and return those that are done at once."""
        new = batch.joining
        with self._changed:
            numbers = range(self._number, self._number + len(new))
            self._number += len(new)
        batch.sentences.update(zip(numbers, new, strict=True))
        batch.joining = []
        queries = [
            Query(number, each.ids, each.limit, each.wanted, each.scored)
            for number, each in zip(numbers, new, strict=True)
        ]
        return self._finish(batch, batch.running.add(queries))

    def _finish(self, batch: _Batch, results: Mapping[int, Result]) -> list[Sentence]:
        """Take sentences out of the batch, answer them, and return them."""
        finished = [batch.sentences.pop(number) for number in results]
        with self._changed:
            self._left(finished)
        for sentence, result in zip(finished, results.values(), strict=True):
            _answer(sentence, result)
        return finished

    def _left(self, sentences: Sequence[Sentence]) -> None:
        """Note that sentences have left a batch."""
        self.running -= len(sentences)
        self._running_cost -= sum(each.cost for each in sentences)

    def _fail(self, batch: _Batch) -> None:
        """Answer all sentences of a batch that cannot go on, and empty it."""
        sentences = [*batch.sentences.values(), *batch.joining]
        batch.sentences, batch.joining = {}, []
        with self._changed:
            self._left(sentences)
        for sentence in sentences:
            _answer(sentence, Failed("the sentence could not be decoded"))


def _retry(seconds: float) -> int:
    return min(_LONGEST_RETRY, max(1, math.ceil(seconds)))


def _answer(sentence: Sentence, result: Result) -> None:
    """Give a sentence its result, if somebody still waits for it."""
    if not sentence.withdrawn:
        sentence.done(result)
