"""`/v1/translate`: typed JSON with scores, pieces, alternatives and sentences; `/v1/limits`."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from crosshead.addons.serving.jobs import TranslationWork, excess_of
from crosshead.addons.serving.readers import in_slices
from crosshead.addons.serving.reading import Reading
from crosshead.addons.serving.requests import (
    RequestError,
    State,
    client_and_values,
    with_error_responses,
)
from crosshead.pipelines.translated_text import TranslatedSentence, TranslatedText
from crosshead.text.parallel.languages import language_name

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
    """The handlers of crosshead's own interface."""

    def __init__(self, state: State) -> None:
        self.state = state

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/v1/translate", with_error_responses(self.translate), methods=["POST"]),
            Route("/v1/limits", with_error_responses(self.limits), methods=["GET"]),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate texts, with everything that is known of their translations."""
        client, values = await client_and_values(self.state, request, NO_KEY)
        form = self._checked(values)
        texts, reading = _texts(form), Reading(form.format)
        work = TranslationWork(self.state, request, client)
        source, detected = form.source, None
        if source == "auto":
            [found] = await work.detected([texts], reading)
            # Texts without letters have no language; they are the same in every other.
            detected = found[0] if found else None
            source = detected.language if detected else form.target
        job = work.job(
            texts, source, form.target, reading, alternatives=form.alternatives, scored=True
        )
        [answers] = await work.translated([job])
        texts_json = ", ".join([await _as_json(each, job.languages) for each in answers])
        detection = (
            "" if detected is None else f', "detected_language": {_json(detected._asdict())}'
        )
        body = f'{{"translations": [{texts_json}]{detection}}}'
        return Response(body, media_type="application/json")

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
            form = TranslateRequest.model_validate(values)
        except ValidationError as error:
            first = json.loads(error.json(include_url=False, include_input=False))[0]
            name = str(first["loc"][0]) if first["loc"] else "body"
            raise RequestError(422, f"{name[:50]}: {first['msg']}") from None
        most = self.state.settings.alternatives
        if form.alternatives > most:
            raise RequestError(422, f"alternatives: expected {most} or fewer")
        if excess := excess_of(_texts(form), self.state.settings):
            if excess.unit == "texts":
                raise RequestError(
                    422, f"text: found {excess.found} texts, and the limit is {excess.most}"
                )
            raise RequestError(
                413, f"the text has {excess.found} characters, and the limit is {excess.most}"
            )
        return form


def _texts(form: TranslateRequest) -> list[str]:
    return form.text if isinstance(form.text, list) else [form.text]


async def _as_json(found: TranslatedText, languages: list[str]) -> str:
    """Return the JSON of a translated text, with the languages on the way.

    It is written sentence by sentence, because there may be many.
    """
    sentences = [_json(_values(each)) async for each in in_slices(found.sentences)]
    whole = {
        "text": found.text,
        "alternatives": found.texts[1:],
        "score": found.score,
        "languages": [{"code": code, "name": language_name(code)} for code in languages],
    }
    return f'{_json(whole)[:-1]}, "sentences": [{", ".join(sentences)}]}}'


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)


def _values(sentence: TranslatedSentence) -> dict[str, Any]:
    return {
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
