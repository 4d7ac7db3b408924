"""DeepL's HTTP interface: translations of texts, glossaries, languages and counts."""

import asyncio
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic_core import ErrorDetails
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crosshead.addons.serving.dialect import Dialect, LooseForm, Operation
from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.errors import RequestError
from crosshead.addons.serving.glossaries import StoredGlossary, compiled, entries_of
from crosshead.addons.serving.jobs import translated
from crosshead.addons.serving.languages import matching
from crosshead.addons.serving.reading import Reading
from crosshead.addons.serving.requests import client_of, ready_service
from crosshead.text.glossary import Glossary
from crosshead.text.parallel.languages import language_name

_NO_LIMIT = 10**12
"""The limit of characters that stands for none, as DeepL writes it."""

_GLOSSARY = "`glossary_id`, `name`, `ready`, languages, `creation_time` and `entry_count`."
_TSV = "text/tab-separated-values"

_REFUSED = ("custom_instructions", "glossary_ids", "style_id", "translation_memory_id")
"""Parameters that change a translation and that no model here can follow."""

_VARIANTS = {
    "en": {"en-GB": "English (British)", "en-US": "English (American)"},
    "pt": {"pt-BR": "Portuguese (Brazilian)", "pt-PT": "Portuguese (European)"},
}
"""Target languages that DeepL's clients ask for by their variants only, with their names."""


class TranslateForm(LooseForm):
    """The values of `/v2/translate`."""

    model_config = ConfigDict(extra="allow")

    text: str | Annotated[list[str], Field(min_length=1)] = Field(
        description="A text. A form repeats it for several, and JSON has a list.",
        examples=["A dog runs."],
    )
    target_lang: str = Field(
        description="The target language, such as `DE` or `EN-US`.", examples=["de"]
    )
    source_lang: str = Field("auto", description="The source language; without it, detected.")
    split_sentences: Literal["0", "1", "nonewlines", 0, 1, ""] = Field(
        "", description="`0`: one sentence. `1` (default): sentences, and line breaks stay. "
        "`nonewlines`: sentences, and line breaks become spaces."
    )  # fmt: skip
    tag_handling: Literal["html", "xml", ""] = Field(
        "", description="`html` and `xml` keep tags, and translate sentences with tags whole."
    )
    splitting_tags: str | list[str] = Field(
        "", description="Tags of XML between which no sentence goes on."
    )
    non_splitting_tags: str | list[str] = Field(
        "", description="Changes nothing: only the splitting tags split."
    )
    ignore_tags: str | list[str] = Field(
        "", description="Tags of XML whose content is not translated."
    )
    glossary_id: str = Field(
        "", description="A glossary of both languages. It needs `source_lang`."
    )
    formality: Literal["default", "prefer_more", "prefer_less"] = Field(
        "default", description="Changes nothing."
    )
    auth_key: str = Field("", description="The key, if no header has it.")

    def reading(self) -> Reading:
        """Return the way in which the texts are read."""
        split = str(self.split_sentences)
        # White space is white space in HTML, so that only "0" differs there.
        form = self.tag_handling or ("text" if split in ("", "1") else "flowing")
        return Reading(
            form, whole=split == "0", splitting=_names(self.splitting_tags),
            ignored=_names(self.ignore_tags),
        )  # fmt: skip


def _names(tags: str | list[str]) -> list[str]:
    """Return the names of tags, with commas between them or as a list."""
    return [
        name.strip()
        for each in ([tags] if isinstance(tags, str) else tags)
        for name in each.split(",")
        if name.strip()
    ]


class LanguagesForm(LooseForm):
    """The values of `/v2/languages`."""

    type: Literal["source", "target"] = Field(
        "source", description="The languages to list.", examples=["target"]
    )


class GlossaryForm(LooseForm):
    """The values of a new glossary."""

    name: str = Field(max_length=1024, description="Its name.", examples=["Animals"])
    source_lang: str = Field(description="The source language.", examples=["en"])
    target_lang: str = Field(description="The target language.", examples=["de"])
    entries: str = Field(
        description="A source term and a target term in each line. A term alone stays as it is.",
        examples=["dog\tHund"],
    )
    entries_format: Literal["tsv", "csv"] = Field(
        description="The format of the entries.", examples=["tsv"]
    )


class DeepL(Dialect):
    """The handlers of DeepL's interface."""

    name = "DeepL"
    text = (
        'Values come as a JSON object, a form or a query. An error is `{"message": "..."}`. '
        "Where the server needs a key, it is the header `Authorization: DeepL-Auth-Key KEY`."
    )
    error_name = "message"
    no_key = (403, "Authorization failed: send a key as `DeepL-Auth-Key KEY`.")
    secret = "auth_key"
    repeated = ("text",)

    def operations(self) -> list[Operation]:
        """Return the operations."""
        return [
            Operation(
                "POST", "/v2/translate", self.translate,
                "`translations`: `text`, `detected_source_language`, `billed_characters`.",
                TranslateForm, key=True,
            ),
            Operation(
                "GET", "/v2/languages", self.languages, "Languages with `language` and `name`.",
                LanguagesForm, key=True,
            ),
            Operation(
                "GET", "/v2/glossary-language-pairs", self.glossary_pairs,
                "`supported_languages`: pairs of `source_lang` and `target_lang`.", key=True,
            ),
            Operation(
                "POST", "/v2/glossaries", self.add_glossary, _GLOSSARY, GlossaryForm, key=True,
                status=201,
            ),
            Operation(
                "GET", "/v2/glossaries", self.list_glossaries, "`glossaries`, a list.", key=True
            ),
            Operation(
                "GET", "/v2/glossaries/{glossary_id}", self.glossary, _GLOSSARY, key=True
            ),
            Operation(
                "GET", "/v2/glossaries/{glossary_id}/entries", self.glossary_entries,
                "The entries.", media=_TSV, key=True,
            ),
            Operation(
                "DELETE", "/v2/glossaries/{glossary_id}", self.delete_glossary, "It is gone.",
                key=True, status=204,
            ),
            Operation(
                "GET", "/v2/usage", self.usage, "`character_count` and `character_limit`.",
                key=True,
            ),
        ]  # fmt: skip

    def wrong_value(self, name: str, error: ErrorDetails) -> str:
        """Return the message about a wrong value."""
        if error["type"] == "missing":
            return f"Parameter '{name}' not specified."
        return f"Value for '{name}' not supported."

    async def translate(self, request: Request) -> Response:
        """Translate texts, each from its own language."""
        client, form = await self.read(request, TranslateForm)
        for name in _REFUSED:
            if (form.model_extra or {}).get(name):
                raise RequestError(400, f"Parameter '{name}' is not supported by this server.")
        texts = form.text if isinstance(form.text, list) else [form.text]
        self.check_size(texts)
        known = ready_service(self.state).directory.languages
        for name, code in (("source_lang", form.source_lang), ("target_lang", form.target_lang)):
            if code != "auto" and matching(code, known) is None:
                raise RequestError(400, f"Value for '{name}' not supported.")
        glossary = await self._asked_glossary(client, form) if form.glossary_id else None
        found = await translated(
            self.state, request, client, [[text] for text in texts], form.source_lang,
            form.target_lang, form.reading(), glossary=glossary,
        )  # fmt: skip
        return JSONResponse({
            "translations": [
                {
                    "detected_source_language": each.source.split("-")[0].upper(),
                    "text": each.texts[0].text,
                    "billed_characters": len(text),
                }
                for each, text in zip(found, texts, strict=True)
            ]
        })  # fmt: skip

    async def languages(self, request: Request) -> Response:
        """List the source or target languages."""
        # DeepL's own client sends the type as the body of its GET request.
        _, form = await self.read(request, LanguagesForm)
        directory = ready_service(self.state).directory
        if form.type == "source":
            codes = [code for code in directory.languages if len(directory.targets(code)) > 1]
            names = {each: language_name(each) for each in (code.split("-")[0] for code in codes)}
            more: dict[str, Any] = {}
        else:
            names, more = target_names(directory), {"supports_formality": False}
        return JSONResponse([
            {"language": code.upper(), "name": name} | more for code, name in names.items()
        ])  # fmt: skip

    async def glossary_pairs(self, request: Request) -> Response:
        """List the language pairs of glossaries."""
        client_of(self.state, request, self.no_key)
        pairs = [{"source_lang": source, "target_lang": target} for source, target in self._pairs()]
        return JSONResponse({"supported_languages": pairs})

    async def add_glossary(self, request: Request) -> Response:
        """Store a glossary for this key; without keys, for everybody."""
        client, form = await self.read(request, GlossaryForm)
        languages = _base(form.source_lang), _base(form.target_lang)
        if languages not in self._pairs():
            raise RequestError(400, "Unsupported glossary source and target language pair.")
        entries = await asyncio.to_thread(entries_of, form.entries, form.entries_format)
        added = await self.state.glossaries.add(self._owner(client), form.name, languages, entries)
        return JSONResponse(added.description(), 201)

    async def list_glossaries(self, request: Request) -> Response:
        """List the glossaries of this key."""
        ready_service(self.state)
        owner = self._owner(client_of(self.state, request, self.no_key))
        found = [each.description() for each in self.state.glossaries.of(owner)]
        return JSONResponse({"glossaries": found})

    async def glossary(self, request: Request) -> Response:
        """Describe a glossary."""
        return JSONResponse(self._glossary(request).description())

    async def glossary_entries(self, request: Request) -> Response:
        """Return the entries of a glossary as TSV."""
        return Response(self._glossary(request).table(), media_type=_TSV)

    async def delete_glossary(self, request: Request) -> Response:
        """Delete a glossary."""
        found = self._glossary(request)
        await self.state.glossaries.delete(found.owner, found.glossary_id)
        return Response(status_code=204)

    async def usage(self, request: Request) -> Response:
        """Count the translated characters of the client."""
        client = client_of(self.state, request, self.no_key)
        count = self.state.usage.characters(client)
        return JSONResponse({"character_count": count, "character_limit": _NO_LIMIT})

    async def _asked_glossary(self, client: str, form: TranslateForm) -> Glossary:
        """Return the glossary that a translation asks for, if it has the same languages."""
        found = self.state.glossaries.get(self._owner(client), form.glossary_id)
        if form.source_lang == "auto":
            raise RequestError(400, "Use of a glossary requires the source_lang parameter.")
        if (found.source_lang, found.target_lang) != (
            _base(form.source_lang), _base(form.target_lang)
        ):  # fmt: skip
            raise RequestError(400, "The languages of the request do not match the glossary.")
        return await asyncio.to_thread(compiled, found.entries)

    def _glossary(self, request: Request) -> StoredGlossary:
        """Return the glossary that a request names, if it is the client's own."""
        owner = self._owner(client_of(self.state, request, self.no_key))
        return self.state.glossaries.get(owner, request.path_params["glossary_id"])

    def _owner(self, client: str) -> str:
        """Return the owner of what a client stores: its key, or everybody on a server without."""
        return "" if self.state.keys is None else client

    def _pairs(self) -> list[tuple[str, str]]:
        """Return the languages of each model. Glossaries hold for all variants of a language."""
        pairs = ready_service(self.state).directory.pairs
        return sorted({(_base(source), _base(target)) for source, target in pairs})


def _base(code: str) -> str:
    return code.lower().partition("-")[0]


def target_names(directory: Directory) -> dict[str, str]:
    """Return the names of target languages by the codes that DeepL's clients ask for."""
    reached = [target for _, target in directory.pairs]
    names: dict[str, str] = {}
    for code in sorted(set(reached)):
        for variant, name in _VARIANTS.get(code, {code: language_name(code)}).items():
            if matching(variant, reached) == code:
                names[variant] = name
    return names
