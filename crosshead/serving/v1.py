"""`/v1/translate`: typed JSON with scores, pieces, alternatives and sentences; `/v1/limits`."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

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

NO_KEY = RequestError(401, "an API key is needed: send it as `Authorization: Bearer KEY`")
"""The error if a key is needed and there is none."""


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
        ]

    async def translate(self, request: Request) -> Response:
        """Translate texts, with everything that is known of their translations."""
        values = await values_of(request, self.state.settings.body_seconds)
        client = client_of(self.state, request, None, NO_KEY)
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
        job = Job(
            texts, job.way, FORMATS[asked.format], client, asked.alternatives, job.seconds,
            scored=True,
        )  # fmt: skip
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
