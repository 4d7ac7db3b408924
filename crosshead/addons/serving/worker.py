"""A worker of the scheduler: a thread and its running batches of sentences."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from crosshead.addons.serving.errors import DeadlineExceeded, Failed
from crosshead.decoding.hypotheses import Hypothesis
from crosshead.tasks.translation.engine import DecodingBatch, Engine, Query

_logger = logging.getLogger(__name__)


Result = list[Hypothesis] | Exception
"""The hypotheses of a sentence, best first, or the error that it gets instead."""


@dataclass(eq=False)
class Sentence:
    """A sentence to decode.

    Attributes:
        engine: The engine that decodes it.
        ids: Its token ids, without eos.
        max_length: The longest output in tokens, eos counted.
        n_best: The number of hypotheses.
        deadline: The time by which it must be done, by `time.monotonic`.
        done: Called once with the result, in a thread of the scheduler. It is not called after
            `withdrawn` was set.
        scored: False if nobody reads the log-probabilities.
        withdrawn: True if nobody waits for it any more. The scheduler sets it.
    """

    engine: Engine
    ids: Sequence[int]
    max_length: int
    n_best: int
    deadline: float
    done: Callable[[Result], object]
    scored: bool = True
    withdrawn: bool = False

    @property
    def cost(self) -> float:
        """The work that it takes: (source tokens + 1) x beam. All work is counted so."""
        return (len(self.ids) + 1.0) * self.engine.beam

    def over(self, now: float) -> bool:
        """Return whether nobody waits for it any more, or its deadline has passed."""
        return self.withdrawn or self.deadline <= now

    def answer(self, result: Result) -> None:
        """Give the sentence its result, if somebody still waits for it."""
        if self.withdrawn:
            return
        try:
            self.done(result)
        except Exception as error:  # who waited is gone, such as the event loop at the end
            _logger.error("a result found nobody: %s", type(error).__name__)


@dataclass(eq=False)
class _Batch:
    """A running batch: the sentences in it by number, and those that join at its next step.

    `alone` is True for a batch of one sentence that was in a batch which failed.
    """

    engine: Engine
    running: DecodingBatch
    sentences: dict[int, Sentence] = field(default_factory=dict)
    joining: list[Sentence] = field(default_factory=list)
    alone: bool = False

    @property
    def every(self) -> list[Sentence]:
        """All sentences."""
        return [*self.sentences.values(), *self.joining]

    def memory(self, *more: Sentence) -> float:
        """Return its bytes, with more sentences, when its outputs are as long as they may be."""
        every = [*self.every, *more]
        if not every:
            return 0.0
        source = max(len(each.ids) + 1 for each in every)
        target = max(each.max_length for each in every)
        return self.engine.bytes(len(every), source, target)


class Worker:
    """A thread that decodes sentences, in one running batch for each engine.

    In every round each batch takes one step. If that fails, each sentence of the batch gets a batch
    of its own, beside the others, and only those that fail again are answered with an error.

    The thread may end or hang, because of an error in a library. `give_up` then takes the sentences
    from it. A thread that goes on after that answers nothing and ends.
    """

    def __init__(
        self,
        name: str,
        fill: Callable[["Worker"], bool],
        turned: Callable[[Sequence[Sentence], float], None],
    ) -> None:
        self._fill, self._turned = fill, turned
        self._lock = threading.Lock()  # of everything that `give_up` takes away
        self._batches: list[_Batch] = []
        self._numbers = itertools.count()
        self._beat: float | None = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.running = 0
        """The number of its sentences."""
        self.cost = 0.0
        """The work of its sentences."""
        self.lost = False
        """True once its sentences were taken from it."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread."""
        self._thread.join(seconds)

    @property
    def ended(self) -> bool:
        """True if the thread has ended."""
        return not self._thread.is_alive()

    def hangs(self, seconds: float) -> bool:
        """Return whether the thread has been in one step for longer than a time."""
        beat = self._beat
        return beat is not None and time.monotonic() - beat > seconds

    def hangs_for_nobody(self, seconds: float) -> bool:
        """Return whether the thread hangs, and nobody waits for its sentences any more.

        A step may take long, and what somebody waits for is worth waiting for.
        """
        now = time.monotonic()
        with self._lock:
            return self.hangs(seconds) and all(each.over(now) for each in self._sentences())

    def rest(self) -> None:
        """Note that the thread waits for work."""
        self._beat = None

    def beat(self) -> None:
        """Note that the thread is at work."""
        self._beat = time.monotonic()

    def take(self, sentence: Sentence, count: int, memory: float) -> bool:
        """Let a sentence join its batch at the next step, and return True, if there is room.

        A sentence that is larger than the whole memory is taken if there is no other.
        """
        with self._lock:
            shared = (b for b in self._batches if b.engine is sentence.engine and not b.alone)
            batch = next(shared, None) or _Batch(sentence.engine, sentence.engine.batch())
            others = sum(each.memory() for each in self._batches if each is not batch)
            fits = others + batch.memory(sentence) <= memory or not self.running
            if len(batch.every) >= count or not fits:
                return False
            batch.joining.append(sentence)
            if batch not in self._batches:
                self._batches.append(batch)
            self.running += 1
            self.cost += sentence.cost
            return True

    def give_up(self) -> list[Sentence]:
        """Take all sentences from the worker, and return them. It gets no others."""
        with self._lock:
            self.lost = True
            taken = self._sentences()
            for batch in self._batches:
                batch.sentences, batch.joining = {}, []
            self._batches, self.running, self.cost = [], 0, 0.0
            return taken

    def _run(self) -> None:
        torch.set_num_threads(1)  # a step is too small to be shared among threads
        try:
            with torch.inference_mode():
                while self._fill(self):
                    for batch in list(self._batches):
                        if not self.lost:
                            self._turn(batch)
        except BaseException as error:  # the scheduler replaces the worker
            _logger.error("a thread that decodes has ended: %s", type(error).__name__)

    def _sentences(self) -> list[Sentence]:
        return [sentence for batch in self._batches for sentence in batch.every]

    def _turn(self, batch: _Batch) -> None:
        """Remove what nobody waits for, let sentences join, and take one step."""
        begin = time.monotonic()
        self.beat()
        done: list[Sentence] = []
        try:
            self._remove(batch, begin)
            done += self._join(batch)
            if len(batch.running):
                done += self._finish(batch, batch.running.step())
        except Exception as error:  # a batch that fails must not end the thread
            _logger.error("a batch failed: %s", type(error).__name__)
            self._break_up(batch)
        with self._lock:
            if not batch.every and batch in self._batches:
                self._batches.remove(batch)
        self._turned(done, time.monotonic() - begin)

    def _remove(self, batch: _Batch, now: float) -> None:
        """Remove sentences that nobody waits for, or whose deadlines have passed."""
        with self._lock:
            late = [each for each in batch.joining if each.over(now)]
            batch.joining = [each for each in batch.joining if each not in late]
            self._forget(late)
        for sentence in late:
            sentence.answer(DeadlineExceeded())
        gone = [number for number, each in batch.sentences.items() if each.over(now)]
        if gone:
            batch.running.drop(gone)
            self._finish(batch, dict.fromkeys(gone, DeadlineExceeded()))

    def _join(self, batch: _Batch) -> list[Sentence]:
        """Let sentences join the batch, and return those that are done at once."""
        with self._lock:
            new = {next(self._numbers): each for each in batch.joining}
            batch.joining = []
            batch.sentences |= new
        queries = [
            Query(number, each.ids, each.max_length, each.n_best, each.scored)
            for number, each in new.items()
        ]
        return self._finish(batch, batch.running.add(queries)) if queries else []

    def _finish(self, batch: _Batch, results: Mapping[int, Result]) -> list[Sentence]:
        """Take sentences out of the batch, answer them, and return them."""
        with self._lock:
            if self.lost:
                return []
            finished = [batch.sentences.pop(number) for number in results]
            self._forget(finished)
        for sentence, result in zip(finished, results.values(), strict=True):
            sentence.answer(result)
        return finished

    def _break_up(self, batch: _Batch) -> None:
        """Empty a batch that failed, and give each of its sentences a batch of its own."""
        with self._lock:
            if self.lost:
                return
            every = batch.every
            if len(every) > 1:
                self._batches += [
                    _Batch(batch.engine, batch.engine.batch(), joining=[each], alone=True)
                    for each in every
                ]
            else:
                self._forget(every)
            batch.sentences, batch.joining = {}, []
        if len(every) == 1:
            every[0].answer(Failed())

    def _forget(self, sentences: Sequence[Sentence]) -> None:
        """Note that sentences have left. A worker that is lost has none."""
        if not self.lost:
            self.running -= len(sentences)
            self.cost -= sum(each.cost for each in sentences)
