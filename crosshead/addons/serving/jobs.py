"""Requests to translate: the detected languages of their texts, their jobs and translations."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from starlette.requests import Request

from crosshead.addons.serving.directory import Directory, LanguagePair
from crosshead.addons.serving.errors import RequestError
from crosshead.addons.serving.languages import Detection, Detector, matching
from crosshead.addons.serving.reading import Reading, has_letters, in_slices, sample_of
from crosshead.addons.serving.requests import State, ready_service, unless_gone
from crosshead.addons.serving.service import Job, Service
from crosshead.tasks.translation.line_translator import TranslatedText
from crosshead.text.glossary import Glossary
from crosshead.text.parallel.languages import language_name


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


async def translated(
    state: State,
    request: Request,
    client: str,
    groups: Sequence[Sequence[str]],
    source: str,
    target: str,
    reading: Reading,
    *,
    alternatives: int = 0,
    scored: bool = False,
    glossary: Glossary | None = None,
) -> list[Translated]:
    """Translate groups of texts, each group from its own language if the source is `auto`.

    The detection and the translations have one deadline.
    """
    service, end = ready_service(state), request.state.end
    detected: list[Detection | None] = [None] * len(groups)
    sources = [source] * len(groups)
    if source == "auto":
        detections = _detections(service, client, groups, reading, end)
        detected = await unless_gone(request, detections)
        sources = [target if each is None else each.language for each in detected]
    members: dict[str, list[int]] = {}  # the groups of each source
    for number, each in enumerate(sources):
        members.setdefault(each, []).append(number)
    known = service.directory.languages
    jobs = [
        Job(
            [text for number in mine for text in groups[number]],
            _way(service.directory, each, target), client,
            reading._replace(language=supported(each, known), target=supported(target, known)), end,
            alternatives, scored, glossary,
        )
        for each, mine in members.items()
    ]  # fmt: skip
    if glossary is not None and any(len(job.way) > 1 for job in jobs):
        raise RequestError(400, "a glossary is for languages that one model translates")
    answers = await unless_gone(request, service.translate_all(jobs))
    characters = sum(job.characters for job in jobs)
    state.metrics.characters.inc(characters)
    state.usage.add(client, characters)
    state.metrics.sentences.inc(sum(len(text.sentences) for texts in answers for text in texts))
    found: dict[int, Translated] = {}
    for job, mine, some in zip(jobs, members.values(), answers, strict=True):
        left = iter(some)
        for number in mine:
            texts = list(islice(left, len(groups[number])))
            found[number] = Translated(sources[number], detected[number], job.languages, texts)
    return [found[number] for number in range(len(groups))]


async def _detections(
    service: Service, client: str, groups: Sequence[Sequence[str]], reading: Reading, end: float
) -> list[Detection | None]:
    """Return the language of each group; None for texts without letters."""
    service.scheduler.check(client, 0.0, end)
    call, way = service.readers.call, tuple(reading)
    return [
        _detected(
            service.detector,
            await call(client, sum(map(len, texts)), sample_of, list(texts), way),
        )
        async for texts in in_slices(groups)
    ]


def _way(directory: Directory, source: str, target: str) -> list[LanguagePair]:
    codes = [supported(code, directory.languages) for code in (source, target)]
    way = directory.way(*codes)
    if way is None:
        first, second = (f"{language_name(code)} ({code})" for code in codes)
        raise RequestError(400, f"{second} is not available as a target language from {first}")
    return way


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
