"""`/v1/translate`: typed JSON with scores, pieces, alternatives and sentences; its description."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from crosshead import __version__
from crosshead.data.documents.formats import FORMATS
from crosshead.pipelines.translated_text import TranslatedText
from crosshead.serving.languages import name_of
from crosshead.serving.libretranslate import job_of, translated
from crosshead.serving.requests import (
    RequestError,
    State,
    answered,
    client_of,
    ready_service,
    values_of,
)
from crosshead.serving.service import Job

_NO_KEY = RequestError(401, "an API key is needed: send it as `Authorization: Bearer KEY`")


class TranslateRequest(BaseModel):
    """A request to `/v1/translate`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str | list[str] = Field(description="A text, or several.")
    source: str = Field(default="auto", description="The source language, or `auto`.")
    target: str = Field(description="The target language.")
    format: Literal["text", "markdown", "html", "srt"] = Field(
        default="text", description="The format of the text."
    )
    alternatives: int = Field(
        default=0, ge=0, description="The number of further translations of each sentence."
    )


class V1:
    """The handlers of crosshead's own interface.

    Args:
        state: The state of the server.
    """

    def __init__(self, state: State) -> None:
        self.state = state

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/v1/translate", answered(self.translate), methods=["POST"]),
            Route("/v1/limits", answered(self.limits), methods=["GET"]),
            Route("/v1/openapi.json", answered(self.openapi), methods=["GET"]),
            Route("/spec", answered(self.spec), methods=["GET"]),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate texts, with everything that is known of their translations."""
        values = await values_of(request, self.state.settings.body_seconds)
        client = client_of(self.state, request, None, _NO_KEY)
        asked = self._checked(values)
        texts = asked.text if isinstance(asked.text, list) else [asked.text]
        count, most = sum(map(len, texts)), self.state.settings.characters
        if most and count > most:
            raise RequestError(413, f"the text has {count} characters, and the limit is {most}")
        service = ready_service(self.state)
        source, detected = asked.source, None
        if source == "auto":
            found = service.detector.detect("\n".join(texts))
            if not found:
                raise RequestError(422, "source: the language of the text cannot be detected")
            detected, source = found[0], found[0].language
        job = job_of(service, self.state, texts, source, asked.target, client)
        job = Job(texts, job.way, FORMATS[asked.format], client, asked.alternatives, job.seconds)
        answers = await translated(self.state, request, service, job)
        body: dict[str, Any] = {"translations": [_as_json(each, job.languages) for each in answers]}
        if detected is not None:
            body["detected_language"] = detected._asdict()
        return JSONResponse(body)

    async def limits(self, request: Request) -> Response:
        """Return the limits of requests; 0 characters or texts are no limit."""
        settings = self.state.settings
        return JSONResponse({
            "characters": settings.characters,
            "texts": settings.texts,
            "alternatives": settings.alternatives,
            "body_bytes": settings.body,
        })  # fmt: skip

    async def openapi(self, request: Request) -> Response:
        """Return the description of `/v1/translate` in OpenAPI 3.1."""
        if self.state.keys is not None:
            client_of(self.state, request, None, _NO_KEY)
        schema = TranslateRequest.model_json_schema()
        content = {"application/json": {"schema": schema}}
        operation = {
            "summary": "Translate texts",
            "requestBody": {"required": True, "content": content},
            "responses": {
                "200": {"description": "The translations, with scores, pieces and sentences."},
                "401": {"description": "A key is needed."},
                "422": {"description": "A value is wrong; the message names it."},
                "429": {"description": "Too many requests; see Retry-After."},
                "503": {"description": "Too much work, or loading; see Retry-After."},
            },
        }
        limits = {
            "summary": "Limits of requests: characters, texts, alternatives, bytes of a body",
            "responses": {"200": {"description": "The limits; 0 characters or texts are none."}},
        }
        return JSONResponse({
            "openapi": "3.1.0",
            "info": {"title": "crosshead", "version": __version__},
            "paths": {"/v1/translate": {"post": operation}, "/v1/limits": {"get": limits}},
        })  # fmt: skip

    async def spec(self, request: Request) -> Response:
        """Return the description of LibreTranslate's interface in Swagger 2."""
        text = {"type": "string"}
        bodies = {
            "/translate": ["q", "source", "target", "format", "alternatives", "api_key"],
            "/detect": ["q", "api_key"],
            "/translate_file": ["file", "source", "target", "api_key"],
            "/suggest": ["q", "s", "source", "target", "api_key"],
        }
        paths: dict[str, Any] = {
            path: {
                "post": {
                    "parameters": [
                        {"name": name, "in": "formData"}
                        | ({"type": "file"} if name == "file" else text)
                        for name in names
                    ],
                    "responses": {"200": {"description": "Success"}},
                }
            }
            for path, names in bodies.items()
        }
        for path in ("/languages", "/frontend/settings", "/health"):
            paths[path] = {"get": {"responses": {"200": {"description": "Success"}}}}
        info = {"title": "crosshead", "version": __version__}
        return JSONResponse({"swagger": "2.0", "info": info, "paths": paths})

    def _checked(self, values: dict[str, Any]) -> TranslateRequest:
        """Return the values of a request, or raise an error that names the wrong one."""
        try:
            asked = TranslateRequest.model_validate(values)
        except ValidationError as error:
            first = json.loads(error.json(include_url=False, include_input=False))[0]
            name = str(first["loc"][0]) if first["loc"] else "body"
            raise RequestError(422, f"{name[:50]}: {first['msg']}") from None
        most = self.state.settings.alternatives
        if asked.alternatives > most:
            raise RequestError(422, f"alternatives: expected {most} or fewer")
        texts = asked.text if isinstance(asked.text, list) else [asked.text]
        limit = self.state.settings.texts
        if limit and len(texts) > limit:
            raise RequestError(422, f"text: found {len(texts)} texts, and the limit is {limit}")
        return asked


def _as_json(found: TranslatedText, languages: list[str]) -> dict[str, Any]:
    """Return the JSON of a translated text, with the languages on the way."""
    return {
        "text": found.text,
        "alternatives": found.texts[1:],
        "score": found.score,
        "languages": [{"code": code, "name": name_of(code)} for code in languages],
        "sentences": [
            {
                "source": sentence.source,
                "translations": [
                    {
                        "text": each.text.strip(),
                        "score": each.score,
                        "log_prob": each.log_prob,
                        "pieces": each.pieces,
                        "piece_log_probs": each.piece_log_probs,
                        "flags": list(each.flags),
                    }
                    for each in sentence.translations
                ],
            }
            for sentence in found.sentences
        ],
    }
