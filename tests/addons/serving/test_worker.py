"""Sentences, and a worker with an engine that fails, hangs or ends where a test wants it."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from crosshead.addons.serving.errors import DeadlineExceeded, Failed
from crosshead.addons.serving.worker import Result, Sentence, Worker
from crosshead.decoding.hypotheses import Finished, Hypothesis
from crosshead.tasks.translation.engine import Query
from tests.models.small_transformers import TINY, model_of
from tests.tasks.translation.test_model_engine import engine_of

BAD_JOIN, BAD_STEP, BAD_TOGETHER, END = 666, 777, 888, 999


@dataclass(eq=False)
class Toy:
    """An engine whose sentences take as many steps as their first id; some ids are trouble.

    Attributes:
        steps: The sizes of the batches at each step.
        gate: Every step waits for it.
    """

    steps: list[int] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    beam: int = 1

    def batch(self) -> "ToyBatch":
        return ToyBatch(self)

    def bytes(self, sentences: int, source: int, target: int) -> float:
        return float(sentences)


class ToyBatch:
    def __init__(self, engine: Toy) -> None:
        self.engine, self.left = engine, dict[int, list[int]]()

    def __len__(self) -> int:
        return len(self.left)

    def add(self, queries: Sequence[Query]) -> Finished:
        for query in queries:
            self.left[query.number] = list(query.ids)
            if BAD_JOIN in query.ids:
                raise ValueError("a bad sentence")
        return {}

    def step(self) -> Finished:
        self.engine.gate.wait(60)
        self.engine.steps.append(len(self.left))
        every = [each for ids in self.left.values() for each in ids]
        if END in every:
            raise SystemExit
        if BAD_STEP in every or (BAD_TOGETHER in every and len(self.left) > 1):
            raise RuntimeError("a bad step")
        for ids in self.left.values():
            ids[0] -= 1
        done = [number for number, ids in self.left.items() if ids[0] <= 0]
        return {number: [Hypothesis(self.left.pop(number), [], 0.0, 0.0, True)] for number in done}

    def drop(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.left.pop(number, None)


class Bench:
    """A worker, the sentences that wait for it, and what became of them."""

    def __init__(self) -> None:
        self.engine = Toy()
        self.engine.gate.set()
        self.waiting: list[Sentence] = []
        self.results: dict[int, Result] = {}
        self.ending = False
        self.changed = threading.Condition()
        self.worker = Worker("toy", self.fill, lambda done, seconds: None)

    def fill(self, worker: Worker) -> bool:
        with self.changed:
            while not worker.lost:
                while self.waiting and worker.take(self.waiting[0], 8, 8.0):
                    self.waiting.pop(0)
                if worker.running:
                    return True
                if self.ending:
                    return False
                worker.rest()
                self.changed.wait(0.01)
                worker.beat()
            return False

    def sentence(self, number: int, ids: list[int], seconds: float = 60.0) -> Sentence:
        def done(result: Result) -> None:
            with self.changed:
                assert number not in self.results
                self.results[number] = result
                self.changed.notify_all()

        return Sentence(self.engine, ids, 9, 1, time.monotonic() + seconds, done)

    def decode(self, *every: list[int]) -> list[str]:
        """The kinds of results of sentences that join together."""
        with self.changed:
            self.waiting = [self.sentence(number, ids) for number, ids in enumerate(every)]
        self.worker.start()
        return self.outcome(len(every))

    def outcome(self, count: int) -> list[str]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.results) >= count, timeout=60)
            return [
                "failed" if isinstance(each, Failed) else type(each).__name__
                for _, each in sorted(self.results.items())
            ]

    def end(self) -> None:
        with self.changed:
            self.ending = True
        self.worker.join(60)
        assert self.worker.ended


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_a_sentence_that_cannot_join_fails_alone() -> None:
    bench = Bench()
    assert bench.decode([3], [2, BAD_JOIN], [5], [1]) == ["list", "failed", "list", "list"]
    assert bench.engine.steps == [1] * 9  # each of the others has a batch of its own
    bench.end()
    assert (bench.worker.running, bench.worker.cost) == (0, 0.0)


def test_sentences_of_a_step_that_fails_are_decoded_one_by_one() -> None:
    bench = Bench()
    assert bench.decode([2], [3, BAD_STEP], [1]) == ["list", "failed", "list"]
    assert bench.engine.steps == [3, 1, 1, 1, 1]
    bench.end()
    assert (bench.worker.running, bench.worker.cost) == (0, 0.0)


def test_what_is_too_much_together_is_decoded_one_by_one() -> None:
    bench = Bench()
    assert bench.decode([2, BAD_TOGETHER], [2], [2]) == ["list"] * 3
    bench.end()


def test_others_join_while_suspects_are_decoded() -> None:
    bench = Bench()
    bench.engine.gate.clear()
    with bench.changed:
        bench.waiting = [bench.sentence(0, [30, BAD_TOGETHER]), bench.sentence(1, [30])]
    bench.worker.start()
    until(lambda: bench.worker.running == 2)
    with bench.changed:
        bench.waiting = [bench.sentence(2, [2])]
    bench.engine.gate.set()
    assert bench.outcome(3) == ["list"] * 3
    assert list(bench.results) == [2, 0, 1]
    bench.end()


def test_a_suspect_that_nobody_waits_for_is_not_decoded() -> None:
    bench = Bench()
    bench.engine.gate.clear()
    late = bench.sentence(1, [1, 1], seconds=0.05)
    with bench.changed:
        bench.waiting = [bench.sentence(0, [2, BAD_STEP]), late]
    bench.worker.start()
    until(lambda: bench.worker.running == 2)
    time.sleep(0.06)
    bench.engine.gate.set()
    bench.outcome(2)
    assert isinstance(bench.results[1], DeadlineExceeded) and isinstance(bench.results[0], Failed)
    bench.end()


def test_a_thread_that_ends_leaves_its_sentences(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    with bench.changed:
        bench.waiting = [bench.sentence(0, [2, END]), bench.sentence(1, [2])]
    bench.worker.start()
    until(lambda: bench.worker.ended)
    assert "SystemExit" in caplog.text and not bench.results
    assert len(bench.worker.give_up()) == 2 and bench.worker.give_up() == []
    assert bench.worker.lost and bench.worker.running == 0


def test_a_thread_that_hangs_is_noticed_and_answers_nothing_later() -> None:
    bench = Bench()
    bench.engine.gate.clear()
    with bench.changed:
        bench.waiting = [bench.sentence(0, [1])]
    bench.worker.start()
    until(lambda: bench.worker.hangs(0.05))
    assert not bench.worker.hangs(60.0) and not bench.worker.ended
    assert len(bench.worker.give_up()) == 1
    bench.engine.gate.set()
    bench.worker.join(60)
    assert bench.worker.ended and not bench.results


def test_a_thread_without_work_does_not_hang() -> None:
    bench = Bench()
    assert bench.decode([1]) == ["list"]
    until(lambda: not bench.worker.hangs(-1.0))
    bench.end()


def test_the_work_counts_tokens_eos_and_rows() -> None:
    sentence = Sentence(engine_of(model_of(TINY), beam=3), [5, 6], 9, 1, 0.0, lambda result: None)
    assert sentence.cost == 9.0


def test_it_is_over_when_it_is_withdrawn_or_late() -> None:
    sentence = Sentence(engine_of(model_of(TINY)), [5], 9, 1, 10.0, lambda result: None)
    assert sentence.over(10.0) and not sentence.over(9.0)
    sentence.withdrawn = True
    assert sentence.over(9.0)


def test_only_who_waits_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    found: list[Result] = []

    def done(result: Result) -> None:
        found.append(result)
        raise RuntimeError("a secret text")

    sentence = Sentence(engine_of(model_of(TINY)), [5], 9, 1, 10.0, done)
    with caplog.at_level(logging.ERROR):
        sentence.answer(Failed("no"))
    assert len(found) == 1 and "RuntimeError" in caplog.text and "secret" not in caplog.text
    sentence.withdrawn = True
    sentence.answer(Failed("no"))
    assert len(found) == 1
