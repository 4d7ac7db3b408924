"""LibreTranslate's HTTP interface, with its paths, values, texts and codes."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from crosshead.addons.serving.jobs import TranslationWork, excess_of, job_target
from crosshead.addons.serving.languages import Detection, matching
from crosshead.addons.serving.matching_form import in_form_of
from crosshead.addons.serving.reading import Reading
from crosshead.addons.serving.requests import (
    RequestError,
    State,
    Upload,
    client_and_values,
    ready_service,
    with_error_responses,
)
from crosshead.text.documents.formats import ENDS, FORMATS
from crosshead.text.parallel.languages import language_name

_NO_KEY = RequestError(400, "Please contact the server operator to get an API key")
_UNKNOWN = [Detection("en", 0.0)]
"""The detection of a text without letters."""

_PART = 64 * 1024
"""The bytes of a file that are sent at a time."""


class LibreTranslate:
    """The handlers of LibreTranslate's interface."""

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
            Route(path, with_error_responses(handler), methods=[method])
            for path, (handler, method) in paths.items()
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a text or several: `POST /translate`."""
        client, values = await self._client_and_values(request)
        q = needed(values, "q")
        source, target = (needed_text(values, name) for name in ("source", "target"))
        texts = self._texts(q)
        kind = str(values.get("format") or "text")
        if kind not in FORMATS:
            raise RequestError(400, f"{kind} format is not supported")
        alternatives = self._alternatives(values.get("alternatives", 0))
        work = TranslationWork(self.state, request, client)
        detected = await _detection(work, texts, source, Reading(kind))
        job = work.job(
            texts,
            detected.language if detected else source,
            target,
            Reading(kind, lettered=True),
            alternatives=alternatives if kind == "text" else 0,
        )
        [answers] = await work.translated([job])
        found = [each.texts for each in answers]
        if kind == "text":
            found = [
                list(dict.fromkeys(in_form_of(text, each) for each in some))
                for text, some in zip(texts, found, strict=True)
            ]
        return JSONResponse(_answer(q, found, detected, alternatives))

    async def detect(self, request: Request) -> Response:
        """Detect the language of a text: `POST /detect`."""
        _, values = await self._client_and_values(request)
        text = needed_text(values, "q")
        detector = ready_service(self.state).detector
        found = detector.detect(text) or _UNKNOWN
        return JSONResponse([_as_json(each) for each in found])

    async def translate_file(self, request: Request) -> Response:
        """Translate a document: `POST /translate_file`."""
        client, values = await self._client_and_values(request)
        file = needed(values, "file")
        source, target = (needed_text(values, name) for name in ("source", "target"))
        if not isinstance(file, Upload):
            raise RequestError(
                400, "Invalid request: missing file parameter; send a file in multipart/form-data"
            )
        name = PurePath(file.name).name
        if not name or not file.data:
            raise RequestError(400, "Invalid request: empty file")
        kind = ENDS.get(PurePath(name).suffix.lower())
        if kind is None:
            raise RequestError(
                400, f"Invalid request: file format not supported; use {', '.join(ENDS)}"
            )
        try:
            text = file.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise RequestError(400, "Invalid request: the file is not in UTF-8") from None
        self._check_size([text])
        work = TranslationWork(self.state, request, client)
        detected = await _detection(work, [text], source, Reading(kind))
        language = detected.language if detected else source
        job = work.job([text], language, target, Reading(kind, lettered=True))
        [[found]] = await work.translated([job])
        stem, suffix = PurePath(name).stem, PurePath(name).suffix
        token = self.state.files.add(
            client, f"{stem}_{job_target(job, language)}{suffix}", found.text.encode()
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
        # In parts, because a part is only sent when the client has taken those before.
        parts = (found.data[at : at + _PART] for at in range(0, len(found.data), _PART))
        return StreamingResponse(
            parts,
            media_type="application/octet-stream",
            headers={"Content-Disposition": disposition, "Content-Length": str(len(found.data))},
        )

    async def suggest(self, request: Request) -> Response:
        """Keep a suggested translation: `POST /suggest`."""
        if self.state.suggestions is None:
            raise RequestError(403, "Suggestions are disabled on this server.")
        client, values = await self._client_and_values(request)
        q, s = (needed_text(values, name) for name in ("q", "s"))
        source, target = (str(needed(values, name)) for name in ("source", "target"))
        self._check_size([q + s])
        known = ready_service(self.state).directory.languages
        codes = [matching(code, known) for code in (source, target)]
        for code, found in zip((source, target), codes, strict=True):
            if found is None:
                raise RequestError(400, f"{code} is not supported")
        try:
            added = self.state.suggestions.add(client, str(codes[0]), str(codes[1]), q, s)
        except OSError:
            message = "the suggestion cannot be stored now; try again later"
            raise RequestError(503, message, {"Retry-After": "60"}) from None
        if not added:
            raise RequestError(403, "No room is left for your suggestions.")
        return JSONResponse({"success": True})

    async def languages(self, request: Request) -> Response:
        """List the languages: `GET /languages`."""
        directory = ready_service(self.state).directory
        return JSONResponse([
            {"code": code, "name": language_name(code), "targets": directory.targets(code)}
            for code in directory.languages
        ])  # fmt: skip

    async def settings(self, request: Request) -> Response:
        """Return what a web page needs to know: `GET /frontend/settings`."""
        service, settings = ready_service(self.state), self.state.settings
        source, target = next(iter(service.directory.pairs))
        return JSONResponse({
            "charLimit": settings.characters or -1,
            "frontendTimeout": 500,
            "apiKeys": self.state.keys is not None,
            "keyRequired": self.state.keys is not None,
            "suggestions": self.state.suggestions is not None,
            "filesTranslation": True,
            "supportedFilesFormat": list(ENDS),
            "language": {
                "source": {"code": source, "name": language_name(source)},
                "target": {"code": target, "name": language_name(target)},
            },
        })  # fmt: skip

    async def health(self, request: Request) -> Response:
        """Say whether the server can translate: `GET /health`."""
        ready_service(self.state)
        return JSONResponse({"status": "ok"})

    async def _client_and_values(self, request: Request) -> tuple[str, dict[str, Any]]:
        return await client_and_values(self.state, request, _NO_KEY, "api_key")

    def _texts(self, q: object) -> list[str]:
        """Return the texts of a request, within the limits."""
        texts = [each for each in (q if isinstance(q, list) else [q]) if isinstance(each, str)]
        if len(texts) != (len(q) if isinstance(q, list) else 1):
            raise RequestError(400, "Invalid request: q parameter is not a text or a list of texts")
        self._check_size(texts)
        return texts

    def _check_size(self, texts: Sequence[object]) -> None:
        if excess := excess_of(texts, self.state.settings):
            raise RequestError(
                400,
                f"Invalid request: request ({excess.found}) exceeds text limit ({excess.most})",
            )

    def _alternatives(self, value: object) -> int:
        """Return the number of alternatives, which a form or a query gives as text."""
        text = "0" if value in (None, "") else str(value)
        if not isinstance(value, bool) and re.fullmatch("-[0-9]+", text):
            raise RequestError(400, "Invalid request: alternatives parameter must be 0 or more")
        if isinstance(value, bool) or not (text.isascii() and text.isdecimal()):
            raise RequestError(400, "Invalid request: alternatives parameter is not a number")
        most = self.state.settings.alternatives
        if len(text) > 9 or int(text) > most:
            raise RequestError(400, f"Invalid request: alternatives parameter must be <= {most}")
        return int(text)


def needed(values: dict[str, Any], name: str) -> Any:
    """Return a value of a request."""
    value = values.get(name)
    if value is None or value == "":
        raise RequestError(400, f"Invalid request: missing {name} parameter")
    return value


def needed_text(values: dict[str, Any], name: str) -> str:
    """Return a text of a request."""
    value = needed(values, name)
    if not isinstance(value, str):
        raise RequestError(400, f"Invalid request: {name} parameter is not a text")
    return value


async def _detection(
    work: TranslationWork, texts: Sequence[str], source: str, reading: Reading
) -> Detection | None:
    """Return the detected language of all texts of a request, or None if it is given."""
    if source != "auto":
        return None
    [found] = await work.detected([texts], reading)
    return found[0] if found else _UNKNOWN[0]


def _answer(
    q: object, found: list[list[str]], detected: Detection | None, alternatives: int
) -> dict[str, Any]:
    """Return the JSON of an answer to `/translate`, by the translations of each text."""
    many = isinstance(q, list)
    best = [each[0] for each in found]
    answer: dict[str, Any] = {"translatedText": best if many else best[0]}
    if detected is not None:
        one = _as_json(detected)
        answer["detectedLanguage"] = [one] * len(best) if many else one
    if alternatives:
        others = [each[1:] for each in found]
        answer["alternatives"] = others if many else others[0]
    return answer


def _as_json(detection: Detection) -> dict[str, Any]:
    return {"confidence": detection.confidence, "language": detection.language}
