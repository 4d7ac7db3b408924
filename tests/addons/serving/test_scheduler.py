"""The scheduler: results, limits, withdrawal, deadlines, and failures."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from crosshead.addons.serving import scheduler as module
from crosshead.addons.serving.errors import DeadlineExceeded, Failed, Overloaded, TooLong
from crosshead.addons.serving.scheduler import Limits, Scheduler, Throughput
from crosshead.addons.serving.worker import Result, Sentence
from crosshead.decoding.beam import beam_search
from crosshead.decoding.hypotheses import Hypothesis
from crosshead.models.transformer import Transformer
from crosshead.tasks.translation.model_engine import ModelEngine
from tests.models.small_transformers import TINY, model_of, tokens
from tests.tasks.translation.test_model_engine import engine_of

MODEL = model_of(TINY)


class Mailbox:
    """The results of sentences, in the order of their arrival."""

    def __init__(self) -> None:
        self.results: dict[int, Result] = {}
        self.order: list[int] = []
        self._changed = threading.Condition()

    def sentence(self, engine: ModelEngine, number: int, seconds: float = 60.0) -> Sentence:
        ids = tokens(1 + number % 7, seed=number).tolist()

        def done(result: Result) -> None:
            with self._changed:
                self.results[number] = result
                self.order.append(number)
                self._changed.notify_all()

        deadline = time.monotonic() + seconds
        return Sentence(engine, ids, 3 + number % 5, 1 + number % 2, deadline, done)

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.results) >= count, timeout=60)


class Gate(Transformer):
    """A model whose steps wait until the gate opens."""

    gate: threading.Event

    def step(self, state, tokens):  # type: ignore[no-untyped-def]
        self.gate.wait(60)
        return super().step(state, tokens)


@pytest.fixture
def gated() -> Iterator[tuple[ModelEngine, threading.Event]]:
    torch.manual_seed(0)  # of these weights no sentence ends with its first token
    model = Gate(TINY, 23, 23).double().eval().requires_grad_(False)
    model.gate = threading.Event()
    model.gate.set()
    engine = engine_of(model)
    model.gate.clear()
    yield engine, model.gate
    model.gate.set()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def alone(sentence: Sentence) -> list[Hypothesis]:
    engine = sentence.engine
    given = engine.model, engine.sources([sentence.ids]), torch.tensor([sentence.max_length])
    return beam_search(*given, engine.specials, engine.rules.beam, 0.6, sentence.n_best)[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_each_sentence_gets_what_it_gets_alone(workers: int) -> None:
    engines = [engine_of(MODEL), engine_of(MODEL, beam=3)]
    scheduler, mailbox = Scheduler(workers, Limits(sentences=3)), Mailbox()
    sentences = [mailbox.sentence(engines[number % 2], number) for number in range(16)]
    for number, sentence in enumerate(sentences):
        scheduler.submit(f"client {number % 3}", [sentence])
    mailbox.wait(16)
    scheduler.stop(10)
    for number, sentence in enumerate(sentences):
        found, expected = mailbox.results[number], alone(sentence)
        assert isinstance(found, list)
        assert [h.tokens for h in found] == [h.tokens for h in expected]
        assert found[0].score == pytest.approx(expected[0].score, abs=1e-9)
    assert (scheduler.running, scheduler.waiting) == (0, 0)


def test_one_sentence_wakes_up_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, mailbox, waits = Scheduler(2), Mailbox(), list[int]()
    changed = scheduler._changed
    asleep = changed._waiters  # type: ignore[attr-defined]
    until(lambda: len(asleep) == 2)
    wait = changed.wait
    monkeypatch.setattr(changed, "wait", lambda: (waits.append(1), wait()))
    scheduler.submit("client", [mailbox.sentence(engine_of(MODEL), 1)])
    mailbox.wait(1)
    until(lambda: len(asleep) == 2)
    assert waits == [1]  # the worker that took the sentence sleeps again
    scheduler.submit("client", [mailbox.sentence(engine_of(MODEL), n) for n in (2, 3)])
    mailbox.wait(3)
    until(lambda: len(asleep) == 2)
    assert waits == [1, 1, 1]
    scheduler.stop(10)


def test_workers_share_the_sentences(gated: tuple[ModelEngine, threading.Event]) -> None:
    engine, gate = gated
    scheduler, mailbox = Scheduler(2), Mailbox()
    scheduler.submit("client", [mailbox.sentence(engine, number) for number in range(7)])
    until(lambda: scheduler.waiting == 0)
    assert sorted(worker.running for worker in scheduler._workers) == [3, 4]
    gate.set()
    mailbox.wait(7)
    scheduler.stop(10)


def test_a_budget_of_memory_holds_back_what_does_not_fit(
    gated: tuple[ModelEngine, threading.Event],
) -> None:
    engine, gate = gated
    one = engine.bytes(1, 8, 8)
    scheduler, mailbox = Scheduler(limits=Limits(memory=3.5 * one)), Mailbox()
    scheduler.submit("a", [mailbox.sentence(engine, 6 + 7 * n) for n in range(8)])
    until(lambda: scheduler.running > 0)
    assert 1 <= scheduler.running <= 4 and scheduler.waiting >= 4
    gate.set()
    mailbox.wait(8)
    scheduler.stop(10)


def test_a_sentence_beyond_the_budget_is_decoded_alone() -> None:
    scheduler, mailbox = Scheduler(limits=Limits(memory=1.0)), Mailbox()
    scheduler.submit("a", [mailbox.sentence(engine_of(MODEL), n) for n in range(3)])
    mailbox.wait(3)
    assert all(isinstance(result, list) for result in mailbox.results.values())
    scheduler.stop(10)


def test_a_book_does_not_hold_up_a_sentence(gated: tuple[ModelEngine, threading.Event]) -> None:
    engine, gate = gated
    scheduler, mailbox = Scheduler(limits=Limits(sentences=2)), Mailbox()
    scheduler.submit("book", [mailbox.sentence(engine, n) for n in range(100)])
    until(lambda: scheduler.running == 2)
    scheduler.submit("note", [mailbox.sentence(engine, 1000)])
    gate.set()
    mailbox.wait(101)
    # It is the third to join, and has three steps beside one other sentence.
    assert mailbox.order.index(1000) <= 5
    scheduler.stop(10)


def test_a_full_queue_refuses_and_says_when_to_try_again(
    gated: tuple[ModelEngine, threading.Event],
) -> None:
    engine, gate = gated
    limits = Limits(sentences=1, waiting=6, waiting_each=4)
    scheduler, mailbox = Scheduler(limits=limits), Mailbox()
    scheduler.submit("a", [mailbox.sentence(engine, n) for n in range(5)])
    until(lambda: scheduler.running == 1)
    with pytest.raises(Overloaded) as refused:
        scheduler.submit("a", [mailbox.sentence(engine, 10)])
    assert refused.value.own and 1 <= refused.value.seconds <= 60
    scheduler.submit("b", [mailbox.sentence(engine, n) for n in range(5, 8)])
    with pytest.raises(Overloaded) as refused:
        scheduler.submit("c", [mailbox.sentence(engine, 11)])
    assert not refused.value.own
    gate.set()
    mailbox.wait(8)
    scheduler.stop(10)


def test_a_request_that_would_be_late_is_refused_at_once(
    gated: tuple[ModelEngine, threading.Event],
) -> None:
    engine, gate = gated
    scheduler, mailbox = Scheduler(limits=Limits(sentences=1)), Mailbox()
    now = time.monotonic()

    def book(first: int, count: int, seconds: float) -> list[Sentence]:
        return [mailbox.sentence(engine, n, seconds) for n in range(first, first + count)]

    scheduler.submit("book", book(0, 50, 1e6))
    until(lambda: scheduler.running == 1)
    scheduler.check("book", 0.0, now)  # nothing is known of the throughput yet
    cost = sum(each.cost for each in book(0, 50, 1.0))
    scheduler._throughput.add(cost / 10, 64, 1.0)  # the book takes ten seconds
    scheduler.check("book", 0.0, now + 60)
    with pytest.raises(Overloaded) as refused:
        scheduler.check("book", 0.0, now + 10)  # it would take most of the time
    assert refused.value.own and 1 <= refused.value.seconds <= 10
    with pytest.raises(Overloaded) as refused:
        scheduler.submit("other", book(50, 40, 10.0))  # they take turns: nearly twenty seconds
    assert not refused.value.own
    with pytest.raises(Overloaded):
        scheduler.check("other", cost, now + 10)
    scheduler.check("other", 1.0, now + 10)
    scheduler.submit("note", book(50, 1, 10.0))  # but a sentence is next
    scheduler.submit("hop", book(51, 1, 60.0), times=2)
    with pytest.raises(Overloaded):
        scheduler.submit("hop", book(52, 1, 60.0), times=100)
    scheduler.submit("other", book(52, 9, 60.0), times=100, admitted=True)
    gate.set()
    mailbox.wait(61)
    scheduler.check("book", 0.0, now)  # nothing waits
    scheduler.stop(10)


def test_who_withdraws_is_removed_before_the_next_step(
    gated: tuple[ModelEngine, threading.Event],
) -> None:
    engine, gate = gated
    scheduler, mailbox = Scheduler(), Mailbox()
    sentences = [mailbox.sentence(engine, n) for n in range(3)]
    scheduler.submit("a", sentences)
    until(lambda: scheduler.running == 3)
    steps = scheduler.steps
    for sentence in sentences:
        sentence.withdrawn = True
    gate.set()
    until(lambda: scheduler.running == 0)
    assert scheduler.steps <= steps + 2 and not mailbox.results
    scheduler.stop(10)


def test_a_deadline_passes_in_the_queue_and_in_the_batch(
    gated: tuple[ModelEngine, threading.Event],
) -> None:
    engine, gate = gated
    scheduler, mailbox = Scheduler(limits=Limits(sentences=1)), Mailbox()
    scheduler.submit("a", [mailbox.sentence(engine, n, seconds=0.1) for n in range(2)])
    time.sleep(0.2)
    gate.set()
    mailbox.wait(2)
    assert all(isinstance(result, DeadlineExceeded) for result in mailbox.results.values())
    scheduler.stop(10)


def test_a_batch_that_fails_answers_its_sentences_and_the_next_one_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_of(model_of(TINY))
    scheduler, mailbox = Scheduler(), Mailbox()

    def broken(*given: object) -> None:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(engine.model, "step", broken)
        scheduler.submit("a", [mailbox.sentence(engine, 0)])
        mailbox.wait(1)
    assert isinstance(mailbox.results[0], Failed)
    scheduler.submit("a", [mailbox.sentence(engine, 1)])
    mailbox.wait(2)
    assert isinstance(mailbox.results[1], list) and scheduler.alive
    scheduler.stop(10)


def test_it_stops_when_everything_is_answered() -> None:
    engine = engine_of(MODEL)
    scheduler, mailbox = Scheduler(), Mailbox()
    scheduler.submit("a", [mailbox.sentence(engine, n) for n in range(9)])
    scheduler.stop(30)
    assert len(mailbox.results) == 9 and not scheduler.alive
    with pytest.raises(Failed, match="stops"):
        scheduler.submit("a", [mailbox.sentence(engine, 10)])


def test_a_request_that_no_server_could_answer_in_time_is_refused_for_good() -> None:
    engine, scheduler, mailbox = engine_of(MODEL), Scheduler(0), Mailbox()
    book = [mailbox.sentence(engine, n, 60.0) for n in range(100)]
    cost = sum(each.cost for each in book)
    scheduler.submit("a", book)  # nothing is known of the throughput yet
    scheduler.withdraw("a", book)
    scheduler._throughput.add(cost / 100, 64, 1.0)  # the book takes 100 seconds
    with pytest.raises(TooLong, match="about 100 seconds, and a request may take 60"):
        scheduler.submit("a", [mailbox.sentence(engine, n, 60.0) for n in range(100)])
    with pytest.raises(TooLong, match="about 100 seconds"):  # a request in several languages
        scheduler.check("a", cost, time.monotonic() + 60)
    scheduler.submit("a", [mailbox.sentence(engine, n, 60.0) for n in range(50)])
    scheduler.stop()


def test_who_withdraws_leaves_the_queue_wherever_the_sentences_wait() -> None:
    engine, scheduler, mailbox = engine_of(MODEL), Scheduler(0, Limits(waiting=9)), Mailbox()
    first, gone = ([mailbox.sentence(engine, n) for n in numbers] for numbers in ((0, 1), range(9)))
    scheduler.submit("a", first)
    scheduler.submit("a", gone)
    with pytest.raises(Overloaded):
        scheduler.submit("b", [mailbox.sentence(engine, 2)])
    scheduler.withdraw("a", gone)
    assert scheduler.waiting == 2
    scheduler.submit("b", [mailbox.sentence(engine, 2)])
    scheduler.stop()
    assert len(mailbox.results) == 3  # those that were withdrawn get no answer


class Ending(Transformer):
    """A model whose steps end the thread, until it is mended."""

    mended = False

    def step(self, state, tokens):  # type: ignore[no-untyped-def]
        if not self.mended:
            raise SystemExit
        return super().step(state, tokens)


def test_a_thread_that_ends_is_replaced_and_its_sentences_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_WATCH_SECONDS", 0.3)
    torch.manual_seed(0)
    model = Ending(TINY, 23, 23).double().eval().requires_grad_(False)
    model.mended = True
    engine = engine_of(model)
    model.mended = False
    scheduler, mailbox = Scheduler(limits=Limits(sentences=2)), Mailbox()
    until(lambda: scheduler.alive)
    scheduler.submit("a", [mailbox.sentence(engine, n) for n in range(6)])
    until(lambda: not scheduler.alive)
    model.mended = True
    mailbox.wait(6)
    failed = [number for number, each in mailbox.results.items() if isinstance(each, Failed)]
    assert failed == [0, 1]  # those that waited are decoded by the new thread
    assert scheduler.alive and (scheduler.running, scheduler.waiting) == (0, 0)
    scheduler.stop(10)


def test_a_thread_that_hangs_is_replaced_once_nobody_waits(
    gated: tuple[ModelEngine, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("LOST", 0.2), ("WATCH", 0.05)):
        monkeypatch.setattr(module, f"_{name}_SECONDS", seconds)
    engine, gate = gated
    scheduler, mailbox = Scheduler(), Mailbox()
    slow = [mailbox.sentence(engine, 0), mailbox.sentence(engine, 1, seconds=0.1)]
    scheduler.submit("a", slow)
    until(lambda: scheduler.running == 2)
    time.sleep(0.5)
    # Somebody waits for one of them, and a long step is no fault.
    assert not mailbox.results and scheduler.running == 2 and scheduler.alive
    scheduler.withdraw("a", slow[:1])
    mailbox.wait(1)
    assert isinstance(mailbox.results[1], Failed)
    until(lambda: scheduler.alive)
    gate.set()
    scheduler.submit("a", [mailbox.sentence(engine, 3)])
    mailbox.wait(2)
    assert isinstance(mailbox.results[3], list)
    scheduler.stop(10)
    assert mailbox.order == [1, 3]  # the thread that hung answers nothing


def test_threads_that_hang_are_not_replaced_without_end(
    gated: tuple[ModelEngine, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("LOST", 0.1), ("WATCH", 0.02)):
        monkeypatch.setattr(module, f"_{name}_SECONDS", seconds)
    monkeypatch.setattr(module, "_MOST_HANGING", 2)
    engine, gate = gated
    scheduler, mailbox = Scheduler(limits=Limits(sentences=1)), Mailbox()
    sentences = [mailbox.sentence(engine, n) for n in range(9)]
    scheduler.submit("a", sentences)
    for hanging, sentence in enumerate(sentences[:3]):
        until(lambda hanging=hanging: scheduler._names == hanging + 1 and scheduler.running == 1)
        scheduler.withdraw("a", [sentence])
    time.sleep(0.5)
    assert scheduler._names == 3 and not scheduler.alive  # two were replaced, the third is not
    gate.set()
    mailbox.wait(6)  # when the threads go on, it is
    assert sorted(mailbox.results) == list(range(3, 9))
    scheduler.stop(10)


def test_a_sentence_whose_engine_gives_no_batch_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, bad = engine_of(MODEL), engine_of(MODEL)

    def broken() -> None:
        raise RuntimeError("no batch")

    monkeypatch.setattr(bad, "batch", broken)
    scheduler, mailbox = Scheduler(), Mailbox()
    scheduler.submit("a", [mailbox.sentence(bad, 0), mailbox.sentence(good, 1)])
    mailbox.wait(2)
    assert isinstance(mailbox.results[0], Failed) and isinstance(mailbox.results[1], list)
    assert scheduler.alive
    scheduler.stop(10)


def test_what_still_runs_when_it_stops_is_answered(
    gated: tuple[ModelEngine, threading.Event],
) -> None:
    engine, gate = gated
    scheduler, mailbox = Scheduler(limits=Limits(sentences=2)), Mailbox()
    scheduler.submit("a", [mailbox.sentence(engine, n) for n in range(5)])
    until(lambda: scheduler.running == 2)
    scheduler.stop(0.1)
    assert sorted(mailbox.results) == list(range(5))
    assert all(isinstance(each, Failed) for each in mailbox.results.values())
    gate.set()


def test_the_last_steps_end_before_it_has_stopped(
    gated: tuple[ModelEngine, threading.Event],
) -> None:
    engine, gate = gated
    before = set(threading.enumerate())
    scheduler, mailbox = Scheduler(limits=Limits(sentences=2)), Mailbox()
    scheduler.submit("a", [mailbox.sentence(engine, 0)])
    until(lambda: scheduler.running == 1)
    threading.Timer(0.3, gate.set).start()
    scheduler.stop()
    decoders = {each for each in threading.enumerate() if each.name.startswith("decoder")}
    assert not decoders - before


def test_the_throughput_is_unknown_until_enough_was_done() -> None:
    throughput = Throughput()
    throughput.add(100.0, 63, 2.0)
    assert throughput.rate is None
    throughput.add(0.0, 1, 0.0)
    assert throughput.rate == pytest.approx(50.0)
    quick = Throughput()
    quick.add(100.0, 1000, 0.5)
    assert quick.rate is None


def test_the_throughput_follows_what_was_done_lately() -> None:
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
