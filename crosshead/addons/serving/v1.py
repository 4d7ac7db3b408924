"""`/v1/translate`: typed JSON with scores, pieces, alternatives and sentences; `/v1/limits`."""

import asyncio
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crosshead.addons.serving.dialect import (
    JSON,
    MOST_ALTERNATIVES,
    Alternatives,
    Dialect,
    Operation,
)
from crosshead.addons.serving.glossaries import MOST_ENTRIES, compiled
from crosshead.addons.serving.jobs import translated
from crosshead.addons.serving.reading import Reading, in_slices
from crosshead.tasks.translation.line_translator import TranslatedSentence, TranslatedText
from crosshead.text.glossary import Entry
from crosshead.text.parallel.languages import language_name


class TranslateRequest(BaseModel):
    """A request to `/v1/translate`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str | list[str] = Field(description="A text, or several.", examples=["A dog runs."])
    source: str = Field(
        "auto", description="The source language, or `auto` (default).", examples=["en"]
    )
    target: str = Field(description="The target language.", examples=["de"])
    format: Literal["text", "markdown", "html", "srt"] = Field(
        "text", description="The format of the text."
    )
    alternatives: Alternatives = Field(
        0, description="The number of further translations of each sentence."
    )
    glossary: dict[str, str] = Field(
        {}, max_length=MOST_ENTRIES, description="Translations that terms of the text must have.",
        examples=[{"dog": "Hund"}],
    )  # fmt: skip


class V1(Dialect):
    """The handlers of crosshead's own interface."""

    name = "crosshead"
    text = (
        'Values come as a JSON object of exactly these types. An error is `{"error": "..."}`. '
        "Where the server needs a key, it is the header `Authorization: Bearer KEY`."
    )
    wrong = 422

    def operations(self) -> list[Operation]:
        """Return the operations."""
        return [
            Operation(
                "POST", "/v1/translate", self.translate,
                "`translations`, and `detected_language` if the source was `auto` and the text has "
                "letters.",
                TranslateRequest, (JSON,), key=True,
            ),
            Operation(
                "GET", "/v1/limits", self.limits,
                "`characters`, `texts`, `alternatives` and `body_bytes`; 0 characters or texts are "
                "no limit.",
            ),
        ]  # fmt: skip

    async def translate(self, request: Request) -> Response:
        """Translate texts, with scores, pieces, alternatives and the sentences of each text."""
        client, form = await self.read(request, TranslateRequest)
        texts = form.text if isinstance(form.text, list) else [form.text]
        self.check_size(texts)
        entries = tuple(Entry(*pair) for pair in form.glossary.items())
        glossary = await asyncio.to_thread(compiled, entries) if entries else None
        [done] = await translated(
            self.state, request, client, [texts], form.source, form.target, Reading(form.format),
            alternatives=form.alternatives, scored=True, glossary=glossary,
        )  # fmt: skip
        found = ", ".join([await _as_json(each, done.languages) for each in done.texts])
        detection = (
            f', "detected_language": {_json(done.detected._asdict())}' if done.detected else ""
        )
        body = f'{{"translations": [{found}]{detection}}}'
        return Response(body, media_type="application/json")

    async def limits(self, request: Request) -> Response:
        """Return the largest request that is answered."""
        settings = self.state.settings
        return JSONResponse({
            "characters": settings.characters,
            "texts": settings.texts,
            "alternatives": MOST_ALTERNATIVES,
            "body_bytes": settings.body,
        })  # fmt: skip


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
                "terms": [term._asdict() for term in each.terms],
            }
            for each in sentence.translations
        ],
    }
