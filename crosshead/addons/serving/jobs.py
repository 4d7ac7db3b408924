"""Requests to translate: their sizes, the detected language, their jobs and translations."""

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request

from crosshead.addons.serving.languages import Detection, Detector, matching
from crosshead.addons.serving.readers import in_slices
from crosshead.addons.serving.reading import Reading, sample_of
from crosshead.addons.serving.requests import (
    RequestError,
    Settings,
    State,
    ready_service,
    unless_gone,
)
from crosshead.addons.serving.sentence import DeadlineExceeded
from crosshead.addons.serving.service import Job
from crosshead.pipelines.translated_text import TranslatedText
from crosshead.text.parallel.languages import language_name


class Excess(NamedTuple):
    """The size of a request that is too large.

    Attributes:
        unit: `texts` or `characters`.
        found: Their number.
        most: The largest number.
    """

    unit: str
    found: int
    most: int


def excess_of(texts: Sequence[object], settings: Settings) -> Excess | None:
    """Return what a request has too much of, or None."""
    if settings.texts and len(texts) > settings.texts:
        return Excess("texts", len(texts), settings.texts)
    if not settings.characters:
        return None
    count = sum(len(str(text)) for text in texts)
    return Excess("characters", count, settings.characters) if count > settings.characters else None


class TranslationWork:
    """The work for a request: its detection and its translations have one deadline."""

    def __init__(self, state: State, request: Request, client: str) -> None:
        self.state, self.request, self.client = state, request, client
        self.service = ready_service(state)
        self._end: float = request.state.end

    async def detected(
        self, groups: Sequence[Sequence[str]], reading: Reading
    ) -> list[list[Detection]]:
        """Return the languages that texts may be in, best first; none for texts without letters."""
        return await unless_gone(
            self.state, self.request, self.client, self._detections(groups, reading)
        )

    async def _detections(
        self, groups: Sequence[Sequence[str]], reading: Reading
    ) -> list[list[Detection]]:
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

    def job(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        reading: Reading,
        *,
        alternatives: int = 0,
        scored: bool = False,
    ) -> Job:
        """Return the job of texts in one language."""
        directory = self.service.directory
        codes = []
        for code in (source, target):
            found = matching(code, directory.languages)
            if found is None:
                raise RequestError(400, f"{code} is not supported")
            codes.append(found)
        way = directory.way(*codes)
        if way is None:
            first, second = (f"{language_name(code)} ({code})" for code in codes)
            raise RequestError(400, f"{second} is not available as a target language from {first}")
        seconds = self._end - time.monotonic()
        reading = reading._replace(language=codes[0])
        return Job(texts, way, self.client, reading, alternatives, seconds, scored)

    async def translated(self, jobs: Sequence[Job]) -> list[list[TranslatedText]]:
        """Return the translations of jobs, and count them if all are done."""
        found = await unless_gone(
            self.state, self.request, self.client, self.service.translate_all(jobs)
        )
        characters = sum(job.characters for job in jobs)
        self.state.metrics.characters.inc(characters)
        self.state.usage.add(self.client, characters)
        texts = [text for each in found for text in each]
        self.state.metrics.sentences.inc(sum(len(text.sentences) for text in texts))
        return found


def job_target(job: Job, source: str) -> str:
    """Return the code of the language that a job translates to."""
    return job.way[-1].target if job.way else source


def _detected(detector: Detector, sample: str) -> list[Detection]:
    if (code := detector.unserved(sample)) is not None:
        message = f"the text is in {language_name(code)} ({code}), which is not served"
        raise RequestError(400, f"{message}; if that is wrong, name its language")
    return detector.detect(sample)
