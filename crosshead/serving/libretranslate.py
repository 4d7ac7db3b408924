"""LibreTranslate's HTTP interface, with its paths, values, texts and codes."""

import html
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from crosshead.data.documents.formats import ENDS, FORMATS
from crosshead.data.documents.parts import plain_parts
from crosshead.pipelines.translated_text import TranslatedText
from crosshead.serving.languages import Detection, matching, name_of
from crosshead.serving.requests import (
    RequestError,
    State,
    Upload,
    answered,
    client_of,
    ready_service,
    unless_gone,
    values_of,
)
from crosshead.serving.service import Job, Service

_NO_KEY = RequestError(400, "Please contact the server operator to get an API key")
_UNKNOWN = [Detection("en", 0.0)]
"""The detection of a text without letters."""


class LibreTranslate:
    """The handlers of LibreTranslate's interface.

    Args:
        state: The state of the server.
    """

    def __init__(self, state: State) -> None:
        self.state = state

    def routes(self) -> list[Route]:
        """Return the routes."""
        paths = {
            "/translate": (self.translate, "POST"),
            "/detect": (self.detect, "POST"),
            "/translate_file": (self.translate_file, "POST"),
            "/suggest": (self.suggest, "POST"),
            "/languages": (self.languages, "GET"),
            "/download_file/{name:path}": (self.download_file, "GET"),
            "/frontend/settings": (self.settings, "GET"),
            "/health": (self.health, "GET"),
        }
        return [
            Route(path, answered(handler), methods=[method])
            for path, (handler, method) in paths.items()
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a text or several: `POST /translate`."""
        values = await self._values(request)
        client = client_of(self.state, request, values.get("api_key"), _NO_KEY)
        q, source, target = (needed(values, name) for name in ("q", "source", "target"))
        texts = self._texts(q)
        kind = str(values.get("format") or "text")
        if kind not in FORMATS:
            raise RequestError(400, f"{kind} format is not supported")
        alternatives = self._alternatives(values.get("alternatives", 0))
        service = ready_service(self.state)
        detected = _detection(service, texts, str(source))
        language = detected.language if detected else str(source)
        job = job_of(service, self.state, texts, language, str(target), client)
        wanted = alternatives if kind == "text" else 0
        job = Job(texts, job.way, FORMATS[kind], client, wanted, job.seconds)
        found = await translated(self.state, request, service, job)
        return JSONResponse(_answer(q, found, detected, alternatives))

    async def detect(self, request: Request) -> Response:
        """Detect the language of a text: `POST /detect`."""
        values = await self._values(request)
        client_of(self.state, request, values.get("api_key"), _NO_KEY)
        text = str(needed(values, "q"))
        found = ready_service(self.state).detector.detect(text) or _UNKNOWN
        return JSONResponse([_as_json(each) for each in found])

    async def translate_file(self, request: Request) -> Response:
        """Translate a document: `POST /translate_file`."""
        values = await self._values(request)
        client = client_of(self.state, request, values.get("api_key"), _NO_KEY)
        file, source, target = (needed(values, name) for name in ("file", "source", "target"))
        name = PurePath(file.name).name if isinstance(file, Upload) else ""
        if not name or not file.data:
            raise RequestError(400, "Invalid request: empty file")
        kind = ENDS.get(PurePath(name).suffix.lower())
        if kind is None:
            raise RequestError(400, "Invalid request: file format not supported")
        try:
            text = file.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise RequestError(400, "Invalid request: the file is not in UTF-8") from None
        self._check_length([text])
        service = ready_service(self.state)
        detected = _detection(service, [text], str(source))
        language = detected.language if detected else str(source)
        job = job_of(service, self.state, [text], language, str(target), client)
        job = Job([text], job.way, FORMATS[kind], client, 0, job.seconds)
        [found] = await translated(self.state, request, service, job)
        stem, suffix = PurePath(name).stem, PurePath(name).suffix
        token = self.state.files.add(
            f"{stem}_{job_target(job, language)}{suffix}", found.text.encode()
        )
        url = f"{request.base_url}download_file/{quote(token)}"
        return JSONResponse({"translatedFileUrl": url})

    async def download_file(self, request: Request) -> Response:
        """Return a translated document: `GET /download_file/NAME`."""
        name = request.path_params["name"]
        if "/" in name or "\\" in name or ".." in name:
            raise RequestError(400, "Invalid filename")
        found = self.state.files.get(name)
        if found is None:
            raise RequestError(404, "there is no such file any more")
        disposition = f"attachment; filename*=UTF-8''{quote(found.name)}"
        return Response(
            found.data,
            media_type="application/octet-stream",
            headers={"Content-Disposition": disposition},
        )

    async def suggest(self, request: Request) -> Response:
        """Keep a suggested translation: `POST /suggest`."""
        if self.state.suggestions is None:
            raise RequestError(403, "Suggestions are disabled on this server.")
        values = await self._values(request)
        client_of(self.state, request, values.get("api_key"), _NO_KEY)
        q, s, source, target = (
            str(needed(values, name)) for name in ("q", "s", "source", "target")
        )
        self._check_length([q, s])
        known = ready_service(self.state).directory.languages
        codes = [matching(code, known) for code in (source, target)]
        for code, found in zip((source, target), codes, strict=True):
            if found is None:
                raise RequestError(400, f"{code} is not supported")
        if not self.state.suggestions.add(str(codes[0]), str(codes[1]), q, s):
            raise RequestError(403, "The file of suggestions is full.")
        return JSONResponse({"success": True})

    async def languages(self, request: Request) -> Response:
        """List the languages: `GET /languages`."""
        directory = ready_service(self.state).directory
        return JSONResponse([
            {"code": code, "name": name_of(code), "targets": directory.targets(code)}
            for code in directory.languages
        ])  # fmt: skip

    async def settings(self, request: Request) -> Response:
        """Return what a web page needs to know: `GET /frontend/settings`."""
        service, settings = ready_service(self.state), self.state.settings
        source, target = next(iter(service.directory.routes))
        return JSONResponse({
            "charLimit": settings.characters or -1,
            "frontendTimeout": 500,
            "apiKeys": self.state.keys is not None,
            "keyRequired": self.state.keys is not None,
            "suggestions": self.state.suggestions is not None,
            "filesTranslation": True,
            "supportedFilesFormat": list(ENDS),
            "language": {
                "source": {"code": source, "name": name_of(source)},
                "target": {"code": target, "name": name_of(target)},
            },
        })  # fmt: skip

    async def health(self, request: Request) -> Response:
        """Say whether the server can translate: `GET /health`."""
        ready_service(self.state)
        return JSONResponse({"status": "ok"})

    async def _values(self, request: Request) -> dict[str, Any]:
        return await values_of(request, self.state.settings.body_seconds)

    def _texts(self, q: object) -> list[str]:
        """Return the texts of a request, within the limits."""
        texts = [str(each) for each in q] if isinstance(q, list) else [str(q)]
        most = self.state.settings.texts
        if most and len(texts) > most:
            raise RequestError(
                400, f"Invalid request: request ({len(texts)}) exceeds text limit ({most})"
            )
        self._check_length(texts)
        return texts

    def _check_length(self, texts: list[str]) -> None:
        count, most = sum(map(len, texts)), self.state.settings.characters
        if most and count > most:
            raise RequestError(
                400, f"Invalid request: request ({count}) exceeds text limit ({most})"
            )

    def _alternatives(self, value: object) -> int:
        """Return the number of alternatives, which a form or a query gives as text."""
        text = "0" if value in (None, "") else str(value)
        if isinstance(value, bool) or not (text.isascii() and text.isdecimal()):
            raise RequestError(400, "Invalid request: alternatives parameter is not a number")
        most = self.state.settings.alternatives
        if len(text) > 9 or int(text) > most:
            raise RequestError(400, f"Invalid request: alternatives parameter must be <= {most}")
        return int(text)


def needed(values: dict[str, Any], name: str) -> Any:
    """Return a value of a request.

    Args:
        values: The values.
        name: The name of the value.

    Raises:
        RequestError: If it is missing.
    """
    value = values.get(name)
    if value is None or value == "":
        raise RequestError(400, f"Invalid request: missing {name} parameter")
    return value


def job_of(
    service: Service, state: State, texts: list[str], source: str, target: str, client: str
) -> Job:
    """Return the job of a request: its texts as plain text, and the way between its languages.

    Args:
        service: The translators.
        state: The state of the server.
        texts: The texts.
        source: The source language, as the request names it.
        target: The target language, as the request names it.
        client: The client.

    Raises:
        RequestError: If a language is not served, or there is no way between the two.
    """
    directory = service.directory
    codes = []
    for code in (source, target):
        found = matching(code, directory.languages)
        if found is None:
            raise RequestError(400, f"{code} is not supported")
        codes.append(found)
    way = directory.way(*codes)
    if way is None:
        first, second = (f"{name_of(code)} ({code})" for code in codes)
        raise RequestError(400, f"{second} is not available as a target language from {first}")
    return Job(texts, way, plain_parts, client, 0, state.settings.seconds)


def job_target(job: Job, source: str) -> str:
    """Return the code of the language that a job translates to.

    Args:
        job: The job.
        source: The source language, which is the target if they are equal.
    """
    return job.way[-1].target if job.way else source


async def translated(
    state: State, request: Request, service: Service, job: Job
) -> list[TranslatedText]:
    """Return the translations of a job, and count them.

    Args:
        state: The state of the server.
        request: The request; if its client leaves, the work ends.
        service: The translators.
        job: The job.

    Raises:
        RequestError: If the client has gone, the deadline has passed, or there is too much work.
    """
    found = await unless_gone(request, service.translate(job))
    characters = sum(map(len, job.texts))
    state.metrics.characters.inc(characters)
    state.usage.add(job.client, characters)
    state.metrics.sentences.inc(sum(len(each.sentences) for each in found))
    return found


def _detection(service: Service, texts: list[str], source: str) -> Detection | None:
    """Return the detected language of all texts of a request, or None if it is given."""
    if source != "auto":
        return None
    found = service.detector.detect(html.unescape("\n".join(texts)))
    return found[0] if found else _UNKNOWN[0]


def _answer(
    q: object, found: list[TranslatedText], detected: Detection | None, alternatives: int
) -> dict[str, Any]:
    """Return the JSON of an answer to `/translate`."""
    many = isinstance(q, list)
    best = [each.text for each in found]
    answer: dict[str, Any] = {"translatedText": best if many else best[0]}
    if detected is not None:
        one = _as_json(detected)
        answer["detectedLanguage"] = [one] * len(best) if many else one
    if alternatives:
        others = [each.texts[1:] for each in found]
        answer["alternatives"] = others if many else others[0]
    return answer


def _as_json(detection: Detection) -> dict[str, Any]:
    return {"confidence": detection.confidence, "language": detection.language}
