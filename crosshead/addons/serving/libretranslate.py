"""LibreTranslate's HTTP interface, with its paths, values, texts and codes."""

from collections.abc import Callable
from itertools import islice
from pathlib import PurePath
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import Field, InstanceOf, WithJsonSchema
from pydantic_core import ErrorDetails
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from crosshead.addons.serving.dialect import (
    FILES,
    Alternatives,
    Dialect,
    LooseForm,
    Operation,
)
from crosshead.addons.serving.errors import RequestError
from crosshead.addons.serving.jobs import supported, translated
from crosshead.addons.serving.languages import Detection
from crosshead.addons.serving.reading import Reading, has_letters
from crosshead.addons.serving.requests import Upload, ready_service
from crosshead.text.documents.formats import ENDS
from crosshead.text.parallel.languages import language_name

_UNKNOWN = Detection("en", 0.0)
"""The detection of a text without letters."""

_PART = 64 * 1024
"""The bytes of a file that are sent at a time."""

_MARKS = {".": ".", "\u3002": ".", "!": "!", "\uff01": "!", "?": "?", "\uff1f": "?", "\u061f": "?",
          ",": ",", "\uff0c": ",", "\u060c": ",", ";": ";", "\uff1b": ";"}  # fmt: skip
"""Final marks, each with the Latin one that means the same."""


_Source = Annotated[str, Field(description="The source language, or `auto`.", examples=["en"])]
_Target = Annotated[str, Field(description="The target language.", examples=["de"])]
_ApiKey = Annotated[
    str, Field(description="The key, if the server needs one and no header has it.")
]


class TranslateForm(LooseForm):
    """The values of `/translate`."""

    q: str | list[str] = Field(
        description="The text, or a list of texts in JSON.", examples=["A dog runs."]
    )
    source: _Source
    target: _Target
    format: Literal["text", "markdown", "html", "srt"] = Field("text", description="The format.")
    alternatives: Alternatives = Field(0, description="The number of further translations.")
    api_key: _ApiKey = ""


class DetectForm(LooseForm):
    """The values of `/detect`."""

    q: str = Field(description="The text.", examples=["A dog runs."])
    api_key: _ApiKey = ""


class FileForm(LooseForm):
    """The values of `/translate_file`."""

    file: Annotated[InstanceOf[Upload], WithJsonSchema({"type": "string", "format": "binary"})] = (
        Field(
            description=f"The document, in UTF-8; its name ends in {', '.join(ENDS)}.",
            examples=["@page.html"],
        )
    )
    source: _Source
    target: _Target
    api_key: _ApiKey = ""


class SuggestForm(LooseForm):
    """The values of `/suggest`."""

    q: str = Field(description="The text.", examples=["A dog."])
    s: str = Field(description="The suggested translation.", examples=["A good dog."])
    source: str = Field(description="The source language.", examples=["en"])
    target: _Target
    api_key: _ApiKey = ""


class LibreTranslate(Dialect):
    """The handlers of LibreTranslate's interface."""

    name = "LibreTranslate"
    text = (
        'Values come as a JSON object, a form or a query. An error is `{"error": "..."}`. Where '
        "the server needs a key, it is the value `api_key` or the header `Authorization: Bearer "
        "KEY`."
    )
    no_key = (400, "Please contact the server operator to get an API key")
    secret = "api_key"
    too_long = 400

    def operations(self) -> list[Operation]:
        """Return the operations."""
        return [
            Operation(
                "POST", "/translate", self.translate,
                "The translation: `translatedText`, and what was asked for of `alternatives` and "
                "`detectedLanguage`.",
                TranslateForm, key=True,
            ),
            Operation(
                "POST", "/detect", self.detect,
                "Languages with their confidence from 0 to 100, best first.",
                DetectForm, key=True,
            ),
            Operation(
                "POST", "/translate_file", self.translate_file,
                "`translatedFileUrl`, from which the translation is downloaded for an hour.",
                FileForm, (FILES,), key=True,
            ),
            Operation(
                "GET", "/download_file/{name}", self.download_file, "The document.",
                media="application/octet-stream",
            ),
            Operation(
                "POST", "/suggest", self.suggest, "`{\"success\": true}`.",
                SuggestForm, key=True,
            ),
            Operation(
                "GET", "/languages", self.languages,
                "Languages with `code`, `name` and `targets`.",
            ),
            Operation("GET", "/frontend/settings", self.settings, "The settings."),
            Operation("GET", "/health", self.health, "`{\"status\": \"ok\"}`."),
        ]  # fmt: skip

    def wrong_value(self, name: str, error: ErrorDetails) -> str:
        """Return the message about a wrong value."""
        kind = error["type"]
        if kind == "literal_error":
            return f"{error['input']} {name} is not supported"
        if kind in ("missing", "is_instance_of"):
            return f"Invalid request: missing {name} parameter"
        if kind in ("int_parsing", "int_type", "int_from_float"):
            return f"Invalid request: {name} parameter is not a number"
        return f"Invalid request: {name} parameter {error['msg'].removeprefix('Input ')}"

    async def translate(self, request: Request) -> Response:
        """Translate a text, or a list of texts in JSON."""
        client, form = await self.read(request, TranslateForm)
        many = isinstance(form.q, list)
        texts = form.q if isinstance(form.q, list) else [form.q]
        self.check_size(texts)
        plain = form.format == "text"
        [done] = await translated(
            self.state, request, client, [texts], form.source, form.target,
            Reading(form.format), alternatives=form.alternatives if plain else 0,
        )  # fmt: skip
        found = [each.texts for each in done.texts]
        if plain:
            found = [
                list(dict.fromkeys(in_form_of(text, each) for each in some))
                for text, some in zip(texts, found, strict=True)
            ]

        def shown(values: list[Any]) -> Any:
            return values if many else values[0]

        answer = {"translatedText": shown([best for best, *_ in found])}
        if form.source == "auto":
            answer["detectedLanguage"] = shown([_as_json(done.detected or _UNKNOWN)] * len(found))
        if form.alternatives:
            answer["alternatives"] = shown([others for _, *others in found])
        return JSONResponse(answer)

    async def detect(self, request: Request) -> Response:
        """Detect the language of a text."""
        _, form = await self.read(request, DetectForm)
        found = ready_service(self.state).detector.detect(form.q) or [_UNKNOWN]
        return JSONResponse([_as_json(each) for each in found])

    async def translate_file(self, request: Request) -> Response:
        """Translate a document."""
        client, form = await self.read(request, FileForm)
        name = PurePath(form.file.name)
        if not name.name or not form.file.data:
            raise RequestError(400, "Invalid request: empty file")
        kind = ENDS.get(name.suffix.lower())
        if kind is None:
            message = f"file format not supported; use {', '.join(ENDS)}"
            raise RequestError(400, f"Invalid request: {message}")
        try:
            text = form.file.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise RequestError(400, "Invalid request: the file is not in UTF-8") from None
        self.check_size([text])
        [done] = await translated(
            self.state, request, client, [[text]], form.source, form.target,
            Reading(kind),
        )  # fmt: skip
        target = supported(form.target, ready_service(self.state).directory.languages)
        token = self.state.files.add(
            client, f"{name.stem}_{target}{name.suffix}", done.texts[0].text.encode()
        )
        url = f"{request.base_url}download_file/{quote(token)}"
        return JSONResponse({"translatedFileUrl": url})

    async def download_file(self, request: Request) -> Response:
        """Download a translated document."""
        found = self.state.files.get(request.path_params["name"])
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
        """Suggest a translation, on a server that takes suggestions."""
        if self.state.suggestions is None:
            raise RequestError(403, "Suggestions are disabled on this server.")
        client, form = await self.read(request, SuggestForm)
        self.check_size([form.q + form.s])
        known = ready_service(self.state).directory.languages
        source, target = (supported(code, known) for code in (form.source, form.target))
        try:
            added = await self.state.suggestions.add(client, source, target, form.q, form.s)
        except OSError:
            message = "the suggestion cannot be stored now; try again later"
            raise RequestError(503, message, after=60) from None
        if not added:
            raise RequestError(403, "No room is left for your suggestions.")
        return JSONResponse({"success": True})

    async def languages(self, request: Request) -> Response:
        """List the languages, and what each is translated to."""
        directory = ready_service(self.state).directory
        return JSONResponse([
            _language(code) | {"targets": directory.targets(code)} for code in directory.languages
        ])  # fmt: skip

    async def settings(self, request: Request) -> Response:
        """Return what a web page needs to know."""
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
            "language": {"source": _language(source), "target": _language(target)},
        })  # fmt: skip

    async def health(self, request: Request) -> Response:
        """Say whether the server can translate."""
        ready_service(self.state)
        return JSONResponse({"status": "ok"})


def _language(code: str) -> dict[str, Any]:
    return {"code": code, "name": language_name(code)}


def _as_json(detection: Detection) -> dict[str, Any]:
    return {"confidence": detection.confidence, "language": detection.language}


def in_form_of(source: str, translation: str) -> str:
    """Return a translation with the final mark and the case of its source.

    A mark at the end is added, replaced or removed. If all letters of the source are small, so are
    those of the translation; if all are capitals, likewise; otherwise the first letter counts.
    White space around the translation stays.
    """
    wanted, found = source.strip(), translation.strip()
    if not wanted or not found:
        return translation
    start = translation.index(found)
    formed = _in_case_of(wanted, _with_mark_of(wanted, found))
    return translation[:start] + formed + translation[start + len(found) :]


def _with_mark_of(source: str, translation: str) -> str:
    wanted, found = source[-1], translation[-1]
    if _MARKS.get(wanted) == _MARKS.get(found):
        return translation
    bare = translation[:-1] if found in _MARKS else translation
    formed = bare.rstrip() + wanted if wanted in _MARKS else bare.rstrip()
    return formed if has_letters(formed) else translation


def _in_case_of(source: str, translation: str) -> str:
    if source.islower():
        return translation.lower()
    if source.isupper() and len(list(islice(filter(str.isalpha, source), 2))) > 1:  # "I" is a word
        return translation.upper()
    case: Callable[[str], str] | None = None
    if source[0].islower():
        case = str.lower
    elif source[0].isupper():
        case = str.upper
    return translation if case is None else case(translation[0]) + translation[1:]
