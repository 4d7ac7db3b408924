"""Requests as sentences: split, translated by the scheduler, and joined again."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from crosshead.addons.serving.directory import Directory, LanguagePair
from crosshead.addons.serving.errors import DeadlineExceeded
from crosshead.addons.serving.languages import Detector
from crosshead.addons.serving.reading import (
    Readers,
    Reading,
    in_slices,
    sentences_of,
    with_translations,
)
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.addons.serving.worker import Result, Sentence
from crosshead.decoding.hypotheses import Hypothesis
from crosshead.tasks.translation.line_translator import (
    LineTranslator,
    PlannedLines,
    TranslatedSentence,
    TranslatedText,
    Translation,
)
from crosshead.text.glossary import Glossary

T = TypeVar("T")

_GROUP = 1_000
"""The number of sentences that are planned and given to the scheduler at once. More would stall
other requests, and wait in memory."""

_DENSITIES = 20
"""The number of requests over which the tokens of a character are averaged."""


@dataclass(frozen=True)
class Job:
    """The wishes of a request.

    Attributes:
        texts: The texts or documents.
        way: The language pairs from the source language to the target language.
        client: The client, for fair turns.
        reading: The way in which the texts are read.
        end: The deadline, by `time.monotonic`.
        alternatives: The number of further translations of each text.
        scored: True if the scores of the translations are read.
        glossary: The terms that the translations must use, or None. The way then has one pair.
    """

    texts: Sequence[str]
    way: Sequence[LanguagePair]
    client: str
    reading: Reading
    end: float
    alternatives: int = 0
    scored: bool = False
    glossary: Glossary | None = None

    @property
    def characters(self) -> int:
        """The number of characters of all texts."""
        return sum(map(len, self.texts))

    def wanted(self, hop: int) -> int:
        """Return the number of translations that are searched for on a route."""
        return self.alternatives + 1 if hop == len(self.way) - 1 else 1

    @property
    def languages(self) -> list[str]:
        """The languages on the way, source and target included; none if they are the same."""
        return [route.source for route in self.way] + [route.target for route in self.way[-1:]]


class _Search(NamedTuple):
    """The search for the translations of a request from one language to another."""

    route: LanguagePair
    wanted: int
    scored: bool
    admitted: bool


class Service:
    """Translates the texts of requests with the bundles of a directory."""

    def __init__(
        self, scheduler: Scheduler, directory: Directory, readers: Readers | None = None
    ) -> None:
        self.scheduler, self.directory = scheduler, directory
        self.readers = readers or Readers()
        self.detector = Detector(directory.languages)
        # The tokens of a character by languages, as moving averages. A reload forgets them.
        self._densities: dict[tuple[str, str], float] = {}

    async def translate_all(self, jobs: Sequence[Job]) -> list[list[TranslatedText]]:
        """Translate the jobs of one request: all are taken together, or none.

        If the task is cancelled, its sentences leave the batch before the next step.
        """
        end = min(job.end for job in jobs)
        self._check(jobs, end, 0.0)  # before the texts are read
        try:
            # The scheduler keeps the deadline too, but not while a document is read, nor if one of
            # its threads hangs.
            async with asyncio.timeout_at(end):
                read = [await self._called(job, sentences_of) for job in jobs]
                pairs = list(zip(jobs, read, strict=True))
                # Before they are tokenized, which takes longer than reading them.
                self._check(jobs, end, sum(self._expected_work(*pair) for pair in pairs))
                # A request of one job is checked once more when its work is known.
                admitted = len(jobs) > 1
                return await _all_or_none([self._translate(*pair, admitted) for pair in pairs])
        except TimeoutError:
            raise DeadlineExceeded from None

    def _check(self, jobs: Sequence[Job], end: float, work: float) -> None:
        """Refuse a request for which there is no time."""
        if any(job.way for job in jobs):
            self.scheduler.check(jobs[0].client, work, end)

    async def _called(self, job: Job, function: Callable[..., T], *values: Any) -> T:
        """Return what a function of the job's texts and their reading returns."""
        texts, reading = list(job.texts), tuple(job.reading)
        return await self.readers.call(
            job.client, job.characters, function, texts, reading, *values
        )

    async def _translate(
        self, job: Job, texts: list[list[str]], admitted: bool
    ) -> list[TranslatedText]:
        """Translate the sentences of the texts of a job."""
        lines = [sentence for each in texts for sentence in each]
        found: list[list[Translation]] = []
        for hop, route in enumerate(job.way):
            last = hop == len(job.way) - 1
            wanted = job.wanted(hop)
            # Several translations of a line that was split are ranked by their scores.
            scored = last and (job.scored or wanted > 1)
            # A request is refused before its first hop, or not at all.
            search = _Search(route, wanted, scored, admitted or hop > 0)
            found = await self._hop(job, search, lines)
            lines = [translations[0].text for translations in found]
        if not job.way:
            found = [[Translation(line, 0.0, 0.0, [], [])] async for line in in_slices(lines)]
        remaining = iter(found)
        of_texts = [list(islice(remaining, len(each))) for each in texts]
        ranks = [
            [
                [each[min(rank, len(each) - 1)].text async for each in in_slices(some)]
                for rank in range(job.alternatives + 1)
            ]
            for some in of_texts
        ]
        wholes = await self._called(job, with_translations, ranks)
        return [
            TranslatedText(
                whole,
                [
                    TranslatedSentence.of(*pair)
                    async for pair in in_slices(zip(sources, some, strict=True))
                ],
            )
            for whole, sources, some in zip(wholes, texts, of_texts, strict=True)
        ]

    async def _hop(self, job: Job, search: _Search, lines: list[str]) -> list[list[Translation]]:
        """Translate sentences from one language to another, two groups of them at a time."""
        characters = sum(map(len, lines))
        tasks: list[asyncio.Task[list[list[Translation]]]] = []
        found: list[list[Translation]] = []
        try:
            for first in range(0, len(lines), _GROUP):
                group = lines[first : first + _GROUP]
                # The first group stands for the work of all, since the others are not planned yet.
                times = len(job.way) * characters / max(1, sum(map(len, group)))
                tasks.append(asyncio.create_task(self._group(job, search, group, times)))
                search = search._replace(admitted=True)
                if len(tasks) > 1:
                    found += await tasks.pop(0)
            for task in tasks:
                found += await task
            return found
        finally:
            for task in tasks:
                task.cancel()

    async def _group(
        self, job: Job, search: _Search, lines: list[str], times: float
    ) -> list[list[Translation]]:
        """Plan sentences, give them to the scheduler, and join the hypotheses of their parts."""
        translator = search.route.translator
        plans = [await _planned(translator, line, job.glossary) async for line in in_slices(lines)]
        ids = [each for plan in plans for each in plan.ids]
        hypotheses = iter(await self._search(job, search, lines, ids, times))
        decode, engine = translator.bundle.config.decode, search.route.engine(search.wanted).name
        found: list[list[Translation]] = []
        async for line, plan in in_slices(zip(lines, plans, strict=True)):
            found_here = list(islice(hypotheses, len(plan.ids)))
            given = [line], plan, found_here, search.wanted, decode, engine
            # The model may read the sentence once more.
            if any(each.spans or each.told for each in plan.marked):
                found += await asyncio.to_thread(translator.joined, *given)
            else:
                found += translator.joined(*given)
        return found

    async def _search(
        self, job: Job, search: _Search, lines: list[str], ids: list[list[int]], times: float
    ) -> list[list[Hypothesis]]:
        """Give sentences to the scheduler, and wait for their hypotheses."""
        loop, route = asyncio.get_running_loop(), search.route
        engine = route.engine(search.wanted)
        futures: list[asyncio.Future[list[Hypothesis]]] = [loop.create_future() for _ in ids]
        sentences = [
            Sentence(
                engine, each, route.limit(each), search.wanted, job.end, _receiver(future),
                search.scored,
            )
            for each, future in zip(ids, futures, strict=True)
        ]  # fmt: skip
        if sentences:
            self._learn_density(route, lines, ids)
            self.scheduler.submit(job.client, sentences, times, search.admitted)
        try:
            return await asyncio.gather(*futures)
        except BaseException:
            self.scheduler.withdraw(job.client, sentences)
            raise

    def _expected_work(self, job: Job, texts: Sequence[Sequence[str]]) -> float:
        """Return the work of a job by the usual tokens of a character; 0 if nothing is known."""
        characters = sum(len(sentence) for each in texts for sentence in each)
        return characters * sum(
            self._densities.get(_languages(route), 0.0) * route.engine(job.wanted(hop)).beam
            for hop, route in enumerate(job.way)
        )

    def _learn_density(self, route: LanguagePair, lines: list[str], ids: list[list[int]]) -> None:
        found = sum(len(each) + 1 for each in ids) / sum(map(len, lines))
        known = self._densities.get(_languages(route), found)
        self._densities[_languages(route)] = known + (found - known) / _DENSITIES


async def _planned(
    translator: LineTranslator, line: str, glossary: Glossary | None
) -> PlannedLines:
    """Return the parts of a sentence. Many terms with one beginning take long to tell apart."""
    if glossary is None:
        return translator.planned([line], 0)
    return await asyncio.to_thread(translator.planned, [line], 0, glossary)


def _receiver(future: asyncio.Future[list[Hypothesis]]) -> Callable[[Result], object]:
    """Return a function that gives a future its result from another thread."""

    def settle(result: Result) -> None:
        if future.done():  # nobody waits any more
            return
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)

    return lambda result: future.get_loop().call_soon_threadsafe(settle, result)


def _languages(route: LanguagePair) -> tuple[str, str]:
    return route.source, route.target


async def _all_or_none(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of coroutines. If one fails, nobody waits for the others."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
