"""Requests to translate: the detected languages of their texts, their jobs and translations."""

import asyncio
import time
from collections.abc import Awaitable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from starlette.requests import Request

from crosshead.addons.serving.directory import LanguagePair
from crosshead.addons.serving.languages import Detection, Detector, has_letters, matching
from crosshead.addons.serving.readers import in_slices
from crosshead.addons.serving.reading import Reading, sample_of
from crosshead.addons.serving.requests import RequestError, State, ready_service, unless_gone
from crosshead.addons.serving.sentence import DeadlineExceeded
from crosshead.addons.serving.service import Job
from crosshead.tasks.translation.translated_text import TranslatedText
from crosshead.text.parallel.languages import language_name

T = TypeVar("T")


class Translated(NamedTuple):
    """The translations of texts in one language.

    Attributes:
        source: The source language. Texts without letters have that of the target.
        detected: The detection of the language, or None if it was given or found nothing.
        languages: The languages on the way, source and target included; none if they are the same.
        texts: The translated texts.
    """

    source: str
    detected: Detection | None
    languages: list[str]
    texts: list[TranslatedText]


class TranslationWork:
    """The work for a request: its detection and its translations have one deadline."""

    def __init__(self, state: State, request: Request, client: str) -> None:
        self.state, self.request, self.client = state, request, client
        self.service = ready_service(state)
        self._end: float = request.state.end

    async def translate(
        self,
        groups: Sequence[Sequence[str]],
        source: str,
        target: str,
        reading: Reading,
        *,
        alternatives: int = 0,
        scored: bool = False,
    ) -> list[Translated]:
        """Translate groups of texts, each group from its own language if the source is `auto`."""
        detected: list[Detection | None] = [None] * len(groups)
        sources = [source] * len(groups)
        if source == "auto":
            detected = await self._unless_gone(self._detections(groups, reading))
            sources = [target if each is None else each.language for each in detected]
        members: dict[str, list[int]] = {}  # the groups of each source
        for number, each in enumerate(sources):
            members.setdefault(each, []).append(number)
        seconds, known = self._end - time.monotonic(), self.service.directory.languages
        jobs = [
            Job(
                [text for number in mine for text in groups[number]], self._way(each, target),
                self.client, reading._replace(language=supported(each, known)), alternatives,
                seconds, scored,
            )
            for each, mine in members.items()
        ]  # fmt: skip
        answers = await self._unless_gone(self.service.translate_all(jobs))
        self._count(jobs, answers)
        found: dict[int, Translated] = {}
        for job, mine, some in zip(jobs, members.values(), answers, strict=True):
            left = iter(some)
            for number in mine:
                texts = list(islice(left, len(groups[number])))
                found[number] = Translated(sources[number], detected[number], job.languages, texts)
        return [found[number] for number in range(len(groups))]

    async def _unless_gone(self, work: Awaitable[T]) -> T:
        return await unless_gone(self.state, self.request, self.client, work)

    async def _detections(
        self, groups: Sequence[Sequence[str]], reading: Reading
    ) -> list[Detection | None]:
        """Return the language of each group; None for texts without letters."""
        self.service.scheduler.check(self.client, 0.0, self._end)
        call, way = self.service.readers.call, tuple(reading)
        try:
            async with asyncio.timeout_at(self._end):
                return [
                    _detected(
                        self.service.detector,
                        await call(self.client, sum(map(len, texts)), sample_of, list(texts), way),
                    )
                    async for texts in in_slices(groups)
                ]
        except TimeoutError:
            raise DeadlineExceeded("the deadline passed while languages were detected") from None

    def _way(self, source: str, target: str) -> list[LanguagePair]:
        directory = self.service.directory
        codes = [supported(code, directory.languages) for code in (source, target)]
        way = directory.way(*codes)
        if way is None:
            first, second = (f"{language_name(code)} ({code})" for code in codes)
            raise RequestError(400, f"{second} is not available as a target language from {first}")
        return way

    def _count(self, jobs: Sequence[Job], answers: Sequence[Sequence[TranslatedText]]) -> None:
        characters = sum(job.characters for job in jobs)
        self.state.metrics.characters.inc(characters)
        self.state.usage.add(self.client, characters)
        sentences = sum(len(text.sentences) for texts in answers for text in texts)
        self.state.metrics.sentences.inc(sentences)


def supported(code: str, known: Iterable[str]) -> str:
    """Return the served language that a request means, or raise an error."""
    found = matching(code, known)
    if found is None:
        raise RequestError(400, f"{code} is not supported")
    return found


def _detected(detector: Detector, sample: str) -> Detection | None:
    if (code := detector.unserved(sample)) is not None:
        message = f"the text is in {language_name(code)} ({code}), which is not served"
        raise RequestError(400, f"{message}; if that is wrong, name its language")
    found = detector.detect(sample)
    if not found and has_letters(sample):
        raise RequestError(400, "the language of the text cannot be detected; name it")
    return found[0] if found else None
