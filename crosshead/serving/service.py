"""Requests as sentences: split, translated by the scheduler, and joined again."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crosshead.data.documents.formats import Parser
from crosshead.data.documents.parts import SplitText, TextPart, rebuilt, texts_of
from crosshead.decoding.candidates import Hypothesis
from crosshead.pipelines.line_translator import PlannedLines, Translation
from crosshead.serving.directory import Directory, Route
from crosshead.serving.languages import Detector
from crosshead.serving.scheduler import Result, Scheduler, Sentence


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence of a text and its translations.

    Attributes:
        source: The sentence.
        translations: Its translations, best first, one or more.
    """

    source: str
    translations: list[Translation]


@dataclass(frozen=True)
class TranslatedText:
    """A text or document and its translations.

    Attributes:
        texts: The translations of the whole, best first, all different.
        sentences: The sentences that it was split into, in order.
        languages: The languages on the way, source and target included.
    """

    texts: list[str]
    sentences: list[TranslatedSentence]
    languages: list[str]

    @property
    def score(self) -> float:
        """The sum of the scores of the best translations of all sentences."""
        return sum(each.translations[0].score for each in self.sentences)


@dataclass(frozen=True)
class Job:
    """The wishes of a request.

    Attributes:
        texts: The texts or documents.
        way: The routes from the source language to the target language.
        parser: The parser of the texts' format.
        client: The client, for fair turns.
        alternatives: The number of further translations of each text.
        seconds: The time until the deadline.
        split: Function that splits a text into sentences.
    """

    texts: Sequence[str]
    way: Sequence[Route]
    parser: Parser
    client: str
    alternatives: int = 0
    seconds: float = 60.0
    split: Callable[[str], SplitText] = SplitText.of


@dataclass
class _Split:
    """One text: its parts, and the sentences of each part that is translated."""

    parts: list[TextPart]
    sentences: list[SplitText]


@dataclass(eq=False)
class _Waiting:
    """The sentences of a request, and the future of their results."""

    loop: asyncio.AbstractEventLoop
    count: int
    future: asyncio.Future[None] = field(init=False)
    results: dict[int, list[Hypothesis]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()
        if not self.count:
            self.future.set_result(None)

    def receive(self, number: int, result: Result) -> None:
        """Note a result; called in the thread of the scheduler."""
        self.loop.call_soon_threadsafe(self._note, number, result)

    def _note(self, number: int, result: Result) -> None:
        if self.future.done():
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
            return
        self.results[number] = result
        if len(self.results) == self.count:
            self.future.set_result(None)


class Service:
    """Translates the texts of requests with the bundles of a directory.

    Args:
        scheduler: The scheduler.
        directory: The bundles; a reload replaces it.
    """

    def __init__(self, scheduler: Scheduler, directory: Directory) -> None:
        self.scheduler, self.directory = scheduler, directory
        self.detector = Detector(directory.languages)

    async def translate(self, job: Job) -> list[TranslatedText]:
        """Translate the texts of a request.

        If the task is cancelled, its sentences leave the batch before the next step.

        Args:
            job: What the request asks for.

        Raises:
            Refused: If too many sentences wait.
            Late: If the deadline passes.
            Failed: If a batch fails, or the server stops.
            DataError: If a document is broken.
        """
        end = time.monotonic() + job.seconds
        splits = await asyncio.to_thread(_split, job)
        sentences = [
            sentence for split in splits for text in split.sentences for sentence in text.sentences
        ]
        found = [[Translation(each, 0.0, 0.0, [], [])] for each in sentences]
        for hop, route in enumerate(job.way):
            wanted = job.alternatives + 1 if hop == len(job.way) - 1 else 1
            lines = [translations[0].text for translations in found]
            found = await self._hop(route, lines, wanted, job.client, end)
        languages = [route.source for route in job.way] + [route.target for route in job.way[-1:]]
        return await asyncio.to_thread(_joined, splits, found, job.alternatives + 1, languages)

    async def _hop(
        self, route: Route, lines: list[str], wanted: int, client: str, end: float
    ) -> list[list[Translation]]:
        """Translate sentences from one language to another."""
        translator = route.translator
        planned = await asyncio.to_thread(translator.planned, lines, 0)
        hypotheses = await self._search(route, planned, wanted, client, end)
        decode = translator.bundle.config.decode
        return await asyncio.to_thread(
            translator.joined, lines, planned, hypotheses, wanted, decode
        )

    async def _search(
        self, route: Route, planned: PlannedLines, wanted: int, client: str, end: float
    ) -> list[list[Hypothesis]]:
        """Give sentences to the scheduler, and wait for their hypotheses."""
        waiting = _Waiting(asyncio.get_running_loop(), len(planned.ids))
        engine = route.engine(wanted)
        sentences = [
            Sentence(
                engine, ids, route.limit(ids), wanted, end,
                lambda result, number=number: waiting.receive(number, result),  # type: ignore[misc]
            )
            for number, ids in enumerate(planned.ids)
        ]  # fmt: skip
        if sentences:
            self.scheduler.submit(client, sentences)
        try:
            await waiting.future
        finally:
            for sentence in sentences:
                sentence.withdrawn = True
        return [waiting.results[number] for number in range(len(sentences))]


def _split(job: Job) -> list[_Split]:
    splits = []
    for text in job.texts:
        parts = job.parser(text)
        splits.append(_Split(parts, [job.split(each) for each in texts_of(parts)]))
    return splits


def _joined(
    splits: Sequence[_Split], found: Sequence[list[Translation]], count: int, languages: list[str]
) -> list[TranslatedText]:
    """Return the texts of a request from the translations of their sentences."""
    remaining = iter(found)
    texts = []
    for split in splits:
        ranked = [[next(remaining) for _ in text.sentences] for text in split.sentences]
        wholes = []
        for rank in range(count):
            lines = [
                text.joined([each[min(rank, len(each) - 1)].text for each in mine])
                for text, mine in zip(split.sentences, ranked, strict=True)
            ]
            wholes.append(rebuilt(split.parts, lines))
        sentences = [
            TranslatedSentence(source.strip(), translations)
            for text, mine in zip(split.sentences, ranked, strict=True)
            for source, translations in zip(text.sentences, mine, strict=True)
        ]
        texts.append(TranslatedText(list(dict.fromkeys(wholes)), sentences, languages))
    return texts
