"""DeepL's HTTP interface: translations of texts, languages and counts of characters."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic_core import ErrorDetails
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from crosshead.addons.serving.dialect import Dialect, LooseForm, Operation
from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.errors import RequestError
from crosshead.addons.serving.jobs import translated
from crosshead.addons.serving.languages import matching
from crosshead.addons.serving.reading import Reading
from crosshead.addons.serving.requests import client_of, ready_service
from crosshead.text.parallel.languages import language_name

_NO_LIMIT = 10**12
"""The limit of characters that stands for none, as DeepL writes it."""

OTHERS = ("/v2/{path:path}", "/v3/{path:path}")
"""Every other path of DeepL's interface."""

_METHODS = ["DELETE", "GET", "PATCH", "POST", "PUT"]

_REFUSED = (
    "custom_instructions", "glossary_id", "glossary_ids", "style_id", "translation_memory_id",
)  # fmt: skip
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
                "`supported_languages`, a list without entries: there are no glossaries.",
                key=True,
            ),
            Operation(
                "GET", "/v2/usage", self.usage, "`character_count` and `character_limit`.",
                key=True,
            ),
        ]  # fmt: skip

    def routes(self) -> list[Route]:
        """Return the routes, with those of what DeepL has beside these operations."""
        return [*super().routes(), *(Route(path, self.other, methods=_METHODS) for path in OTHERS)]

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
        found = await translated(
            self.state, request, client, [[text] for text in texts], form.source_lang,
            form.target_lang, form.reading(),
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
        ready_service(self.state)
        return JSONResponse({"supported_languages": []})

    async def usage(self, request: Request) -> Response:
        """Count the translated characters of the client."""
        client = client_of(self.state, request, self.no_key)
        count = self.state.usage.characters(client)
        return JSONResponse({"character_count": count, "character_limit": _NO_LIMIT})

    async def other(self, request: Request) -> Response:
        """Refuse what DeepL has beside these operations."""
        raise RequestError(404, f"Not found: this server offers no {request.url.path}.")


def target_names(directory: Directory) -> dict[str, str]:
    """Return the names of target languages by the codes that DeepL's clients ask for."""
    reached = [target for _, target in directory.pairs]
    names: dict[str, str] = {}
    for code in sorted(set(reached)):
        for variant, name in _VARIANTS.get(code, {code: language_name(code)}).items():
            if matching(variant, reached) == code:
                names[variant] = name
    return names
