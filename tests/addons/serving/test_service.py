"""The service: cancelled work, errors, and texts that need no model."""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.errors import DeadlineExceeded, Overloaded
from crosshead.addons.serving.reading import Readers, Reading, sentences_of
from crosshead.addons.serving.scheduler import Limits, Scheduler
from crosshead.addons.serving.service import Job, Service
from crosshead.addons.serving.worker import Sentence
from crosshead.errors import DataError
from crosshead.tasks.translation.line_translator import TranslatedText

T = TypeVar("T")


@pytest.fixture
def service(directory: Directory) -> Iterator[Service]:
    scheduler = Scheduler(limits=Limits(sentences=1))
    yield Service(scheduler, directory)
    scheduler.stop(10)


def job(service: Service, texts: list[str], seconds: float = 60.0) -> Job:
    way = service.directory.way("en", "de")
    assert way is not None
    return Job(texts, way, "me", Reading(), time.monotonic() + seconds)


async def translate(service: Service, job: Job) -> list[TranslatedText]:
    """The translated texts of a request of one job."""
    [found] = await service.translate_all([job])
    return found


def ran(service: Service, work: Coroutine[Any, Any, T]) -> T:
    """The result of work, with its processes ended."""

    async def ended() -> T:
        try:
            return await asyncio.wait_for(work, 60)
        finally:
            await service.readers.close()

    return asyncio.run(ended())


def test_texts_without_words_need_no_model(service: Service) -> None:
    work = job(service, ["", "\n \n"])
    found = asyncio.run(translate(service, work))
    assert [each.texts for each in found] == [[""], ["\n \n"]]
    assert service.scheduler.steps == 0 and work.languages == ["en", "de"]


def test_a_deadline_holds_while_a_document_is_read(service: Service) -> None:
    # Read whole, it takes seconds: a part for each of half a million lines.
    work = job(service, ["a\n" * 500_000], seconds=0.3)
    begin = time.monotonic()

    async def late() -> None:
        with pytest.raises(DeadlineExceeded):
            await translate(service, work)

    ran(service, late())
    assert time.monotonic() - begin < 2


def test_other_work_goes_on_while_a_long_line_is_planned_and_joined(service: Service) -> None:
    longest, before = 0.0, time.monotonic()

    async def watch() -> None:
        nonlocal longest, before
        while True:
            await asyncio.sleep(0)
            longest, before = max(longest, time.monotonic() - before), time.monotonic()

    async def end_late() -> None:
        nonlocal before
        work = job(service, ["dog 12 " * 10_000], seconds=1)
        watching, before = asyncio.create_task(watch()), time.monotonic()
        with pytest.raises(DeadlineExceeded):
            await translate(service, work)
        watching.cancel()

    ran(service, end_late())
    assert 0 < longest < 1


def test_a_cancelled_request_leaves_the_queue_and_the_batch(service: Service) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(translate(service, job(service, ["A dog runs.\n" * 500])))
        while not service.scheduler.running:
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while service.scheduler.running or service.scheduler.waiting:
            await asyncio.sleep(0.002)

    ran(service, cancelled())
    assert service.scheduler.steps < 500


def test_if_one_job_of_a_request_fails_the_others_end(service: Service) -> None:
    async def failed() -> None:
        book = job(service, ["A dog runs.\n" * 500])
        broken = replace(job(service, ["no times " * 100]), reading=Reading("srt"))
        with pytest.raises(DataError):
            await service.translate_all([book, broken])
        while service.scheduler.running or service.scheduler.waiting:
            await asyncio.sleep(0.002)

    ran(service, failed())
    assert service.scheduler.steps < 500


def test_a_deadline_that_has_passed_and_a_full_queue(service: Service) -> None:
    with pytest.raises(DeadlineExceeded):
        asyncio.run(translate(service, job(service, ["A dog."], seconds=0.0)))
    service.scheduler.limits.waiting = 0
    with pytest.raises(Overloaded):
        asyncio.run(translate(service, job(service, ["A dog."])))


def test_a_request_that_would_be_late_is_refused_before_it_is_read(service: Service) -> None:
    class Unused(Readers):
        async def call(self, *values: object) -> Any:
            raise AssertionError("the text was read")

    async def refused() -> None:
        book = asyncio.create_task(translate(service, job(service, ["A dog runs.\n" * 500])))
        while not service.scheduler.waiting:
            await asyncio.sleep(0.002)
        service.scheduler._throughput.add(1.0, 64, 1.0)  # the book takes hours
        service.readers = Unused()
        with pytest.raises(Overloaded):
            await translate(service, job(service, ["A dog. " * 500]))
        book.cancel()

    ran(service, refused())


def test_a_request_is_not_refused_halfway(directory: Directory) -> None:
    scheduler = Scheduler(limits=Limits(sentences=1))
    service = Service(scheduler, directory)
    way = directory.way("en", "fr")
    assert way is not None and len(way) == 2
    taken: list[tuple[float, bool]] = []
    submit = scheduler.submit

    def noted(client: str, sentences: Sequence[Sentence], times: float, admitted: bool) -> None:
        taken.append((times, admitted))
        scheduler.limits.waiting = 0 if len(taken) > 1 else 10  # full before the second half
        submit(client, sentences, times, admitted)

    scheduler.submit = noted  # type: ignore[method-assign]
    [found] = asyncio.run(
        translate(service, Job(["A dog."], way, "me", Reading(), time.monotonic() + 60))
    )
    assert taken == [(2, False), (2, True)] and found.text
    scheduler.stop(10)


def test_a_cancelled_request_leaves_the_queue_behind_others(directory: Directory) -> None:
    service = Service(Scheduler(0), directory)  # nobody decodes

    async def cancelled() -> list[int]:
        first, second = (
            asyncio.create_task(translate(service, job(service, ["A dog runs.\n" * count])))
            for count in (3, 500)
        )
        while service.scheduler.waiting < 503:
            await asyncio.sleep(0.002)
        counts = []
        for task in (second, first):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            counts.append(service.scheduler.waiting)
        return counts

    assert ran(service, cancelled()) == [3, 0]


def test_a_deadline_holds_even_if_no_thread_keeps_it(directory: Directory) -> None:
    service = Service(Scheduler(0), directory)

    async def late() -> None:
        with pytest.raises(DeadlineExceeded):
            await translate(service, job(service, ["A dog."], seconds=0.05))

    asyncio.run(asyncio.wait_for(late(), 10))
    assert service.scheduler.waiting == 0


def work_of(service: Service, job: Job) -> float:
    """The work that the service expects of a job."""
    return service._expected_work(job, sentences_of(job.texts, job.reading))


def test_the_expected_work_of_a_text_knows_its_route_and_beam(directory: Directory) -> None:
    service = Service(Scheduler(), directory)
    one = job(service, ["A dog runs."])
    assert work_of(service, one) == 0.0
    asyncio.run(translate(service, one))
    usual = work_of(service, one)
    [route] = one.way
    ids = route.translator.planned(["A dog runs."], 0).ids
    assert usual == pytest.approx(sum(len(each) + 1 for each in ids) * route.engine(1).beam)
    many = replace(one, alternatives=9)
    asyncio.run(translate(service, many))
    assert work_of(service, one) == pytest.approx(usual)  # one request with a wide beam
    assert work_of(service, many) == pytest.approx(usual * 10 / route.engine(1).beam)
    back = service.directory.way("de", "fr")
    assert back is not None
    assert work_of(service, replace(one, way=back)) == 0.0  # another route is not known yet
    service.scheduler.stop(10)


def test_markup_and_white_space_are_no_work(directory: Directory) -> None:
    service = Service(Scheduler(), directory)
    one = job(service, ["A dog runs."])
    asyncio.run(translate(service, one))
    image = f'<p>A dog runs.</p><img src="data:{"A" * 10_000}">'
    page = replace(one, texts=[image], reading=Reading("html"))
    spaces = replace(one, texts=["A dog runs.\n" + 10_000 * " "])
    for each in (page, spaces):
        assert work_of(service, each) == pytest.approx(work_of(service, one))
    service.scheduler.stop(10)
