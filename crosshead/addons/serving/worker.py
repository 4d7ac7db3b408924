"""A worker of the scheduler: a thread and its running batches."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from crosshead.addons.serving.engine import DecodingBatch, Engine, Query
from crosshead.addons.serving.sentence import DeadlineExceeded, Failed, Result, Sentence

_logger = logging.getLogger(__name__)


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
    def count(self) -> int:
        """The number of sentences."""
        return len(self.sentences) + len(self.joining)

    def memory(self, *more: Sentence) -> float:
        """Return its bytes, with more sentences, when its outputs are as long as they may be."""
        every = [*self.sentences.values(), *self.joining, *more]
        if not every:
            return 0.0
        source = max(len(each.ids) + 1 for each in every)
        target = max(each.max_length for each in every)
        return self.engine.bytes(len(every), source, target)


class Worker:
    """A thread that decodes sentences, in one running batch for each engine.

    In every round each batch takes one step. If sentences cannot join a batch, each of them joins
    by itself, and only those that cannot are answered with an error. If a step fails, the sentences
    of the batch are decoded once more, one after the other, beside the others.

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
        self._batches: dict[Engine, _Batch] = {}
        self._suspects: deque[Sentence] = deque()  # of batches whose steps failed
        self._alone: _Batch | None = None
        self._number = 0
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
            batch = self._batches.get(sentence.engine)
            if batch is None:
                batch = _Batch(sentence.engine, sentence.engine.batch())
            others = sum(each.memory() for each in self._every() if each is not batch)
            fits = others + batch.memory(sentence) <= memory or not self.running
            if batch.count >= count or not fits:
                return False
            batch.joining.append(sentence)
            self._batches[sentence.engine] = batch
            self.running += 1
            self.cost += sentence.cost
            return True

    def give_up(self) -> list[Sentence]:
        """Take all sentences from the worker, and return them. It gets no others."""
        with self._lock:
            self.lost = True
            taken = self._sentences()
            for batch in self._every():
                batch.sentences, batch.joining = {}, []
            self._batches, self._alone, self.running, self.cost = {}, None, 0, 0.0
            self._suspects.clear()
            return taken

    def _run(self) -> None:
        torch.set_num_threads(1)  # a step is too small to be shared among threads
        try:
            with torch.inference_mode():
                while self._fill(self):
                    for batch in self._round():
                        if not self.lost:
                            self._turn(batch)
        except BaseException as error:  # the scheduler replaces the worker
            _logger.error("a thread that decodes has ended: %s", type(error).__name__)

    def _every(self) -> list[_Batch]:
        alone = [] if self._alone is None else [self._alone]
        return [*self._batches.values(), *alone]

    def _sentences(self) -> list[Sentence]:
        batches = self._every()
        running = [sentence for batch in batches for sentence in batch.sentences.values()]
        return [*running, *(each for batch in batches for each in batch.joining), *self._suspects]

    def _round(self) -> list[_Batch]:
        """Return the batches of a round. One suspect at a time has a batch of its own."""
        with self._lock:
            if self._alone is None and self._suspects:
                sentence = self._suspects[0]
                running = sentence.engine.batch()
                self._suspects.popleft()
                self._alone = _Batch(sentence.engine, running, joining=[sentence], alone=True)
            return self._every()

    def _turn(self, batch: _Batch) -> None:
        """Remove what nobody waits for, let sentences join, and take one step."""
        begin = time.monotonic()
        self.beat()
        try:
            self._remove(batch, begin)
            done = self._join(batch)
            if len(batch.running):
                done += self._finish(batch, batch.running.step())
        except Exception as error:  # a batch that fails must not end the thread
            _logger.error("a batch failed: %s", type(error).__name__)
            done = []
            self._break_up(batch)
        with self._lock:
            if not batch.count:
                if batch is self._alone:
                    self._alone = None
                elif self._batches.get(batch.engine) is batch:
                    del self._batches[batch.engine]
        self._turned(done, time.monotonic() - begin)

    def _remove(self, batch: _Batch, now: float) -> None:
        """Remove sentences that nobody waits for, or whose deadlines have passed."""
        with self._lock:
            late = [each for each in batch.joining if each.over(now)]
            if late:
                batch.joining = [each for each in batch.joining if each not in late]
                self._forget(late)
        for sentence in late:
            sentence.answer(DeadlineExceeded("the deadline passed while the sentence waited"))
        gone = [number for number, each in batch.sentences.items() if each.over(now)]
        if gone:
            batch.running.drop(gone)
            error = DeadlineExceeded("the deadline passed while the sentence was decoded")
            self._finish(batch, dict.fromkeys(gone, error))

    def _join(self, batch: _Batch) -> list[Sentence]:
        """Let sentences join the batch, and return those that are done at once."""
        with self._lock:
            new, batch.joining = batch.joining, []
            numbers = range(self._number, self._number + len(new))
            self._number += len(new)
            batch.sentences.update(zip(numbers, new, strict=True))
        queries = [
            Query(number, each.ids, each.max_length, each.n_best, each.scored)
            for number, each in zip(numbers, new, strict=True)
        ]
        return self._add(batch, queries) if queries else []

    def _add(self, batch: _Batch, queries: Sequence[Query]) -> list[Sentence]:
        """Add sentences to the running batch, or each of them by itself if they cannot join."""
        try:
            found = batch.running.add(queries)
        except Exception as error:
            _logger.error("sentences could not join a batch: %s", type(error).__name__)
            batch.running.drop([each.number for each in queries])
            if len(queries) > 1:
                return [done for each in queries for done in self._add(batch, [each])]
            failed = Failed("the sentence could not be decoded")
            self._finish(batch, {queries[0].number: failed})
            return []
        return self._finish(batch, found)

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
        """Empty a batch whose step failed, and decode its sentences one by one."""
        with self._lock:
            if self.lost:
                return
            sentences = [*batch.sentences.values(), *batch.joining]
            batch.sentences, batch.joining = {}, []
            if len(sentences) > 1:
                self._suspects.extend(sentences)
                return
            self._forget(sentences)
        for sentence in sentences:
            sentence.answer(Failed("the sentence could not be decoded"))

    def _forget(self, sentences: Sequence[Sentence]) -> None:
        """Note that sentences have left. A worker that is lost has none."""
        if not self.lost:
            self.running -= len(sentences)
            self.cost -= sum(each.cost for each in sentences)
