"""The description of every route: its values, its answers and an example, in one table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crosshead.addons.serving.v1 import TranslateRequest
from crosshead.text.documents.formats import ENDS, FORMATS
from crosshead.version import __version__


@dataclass(frozen=True)
class Value:
    """A value of a request.

    Attributes:
        name: Its name.
        text: A sentence about it.
        needed: True if a request without it is refused.
        kind: Its type in JSON, or `file`; empty for several types.
        place: Where it stands: `form`, `json`, `query`, or `path`. A form may also be a query or a
            JSON object.
        choices: The values that it may have, if they are few.
    """

    name: str
    text: str
    needed: bool = False
    kind: str = "string"
    place: str = "form"
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """A route with one method.

    Attributes:
        method: `GET` or `POST`.
        path: The path, with names of its values in braces.
        summary: A sentence about it.
        values: The values of a request.
        answers: A sentence about each status.
        form: The type of the body of the answer 200.
        key: True if it needs a key on a server with keys.
        example: Values of an example request, in which `SOURCE` and `TARGET` are languages. None if
            no request makes sense by itself.
    """

    method: str
    path: str
    summary: str
    values: Sequence[Value] = ()
    answers: Mapping[int, str] = field(default_factory=dict)
    form: str = "application/json"
    key: bool = False
    example: Mapping[str, Any] | None = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """Operations that belong together.

    Attributes:
        name: The name.
        text: A paragraph about them.
        operations: The operations.
    """

    name: str
    text: str
    operations: Sequence[Operation]


_LOADING = {503: "The server is loading its models; see `Retry-After`."}
_KEY = {400: "A value is missing or wrong, or a key is needed.", 403: "The key is wrong."}
_OFTEN = {429: "The client asks too often; see `Retry-After`."}
_BODY = {408: "The body did not arrive in time.", 413: "The body is too large."}
_WORK = {
    413: "The body or the text is too large, or would take longer than a request may.",
    429: "The client asks too often, or too many of its sentences wait; see `Retry-After`.",
    503: "The server is loading, has too much to do, or missed the deadline; see `Retry-After`.",
}

_SOURCE = Value("source", "The source language, or `auto`.", needed=True)
_TARGET = Value("target", "The target language.", needed=True)
_API_KEY = Value("api_key", "The key, if the server needs one and no header has it.")
_PAIR = {"source": "SOURCE", "target": "TARGET"}

LIBRETRANSLATE = Group(
    "LibreTranslate",
    "Values come as a JSON object, a form or a query. An error is `{\"error\": \"...\"}`. Where "
    "the server needs a key, it is the value `api_key` or the header `Authorization: Bearer KEY`.",
    (
        Operation(
            "POST", "/translate", "Translate a text, or a list of texts in JSON.",
            (
                Value("q", "The text, or a list of texts in JSON.", needed=True), _SOURCE, _TARGET,
                Value("format", "The format (default: `text`).", choices=tuple(FORMATS)),
                Value("alternatives", "The number of further translations.", kind="integer"),
                _API_KEY,
            ),
            {200: "The translation: `translatedText`, and what was asked for of `alternatives` and "
             "`detectedLanguage`."} | _KEY | _BODY | _WORK,
            key=True, example={"q": "A dog runs."} | _PAIR,
        ),
        Operation(
            "POST", "/detect", "Detect the language of a text.",
            (Value("q", "The text.", needed=True), _API_KEY),
            {200: "Languages with their confidence from 0 to 100, best first."}
            | _KEY | _BODY | _OFTEN | _LOADING,
            key=True, example={"q": "A dog runs."},
        ),
        Operation(
            "POST", "/translate_file", "Translate a document.",
            (
                Value("file", f"The document, in UTF-8; its name ends in {', '.join(ENDS)}.",
                      needed=True, kind="file"),
                _SOURCE, _TARGET, _API_KEY,
            ),
            {200: "`translatedFileUrl`, from which the translation is downloaded for an hour."}
            | _KEY | _BODY | _WORK,
            key=True, example={"file": "@page.html"} | _PAIR,
        ),
        Operation(
            "GET", "/download_file/{name}", "Download a translated document.",
            (Value("name", "The name of the file, from the answer of `/translate_file`.",
                   needed=True, place="path"),),
            {200: "The document.", 400: "The name is not a valid file name.",
             404: "There is no such file any more."},
            form="application/octet-stream", example=None,
        ),
        Operation(
            "POST", "/suggest", "Suggest a translation, on a server that takes suggestions.",
            (Value("q", "The text.", needed=True),
             Value("s", "The suggested translation.", needed=True),
             Value("source", "The source language.", needed=True), _TARGET, _API_KEY),
            {200: "`{\"success\": true}`."} | _KEY | _BODY | _OFTEN
            | {403: "Suggestions are disabled, no room is left for more, or the key is wrong.",
               503: "The server is loading its models, or cannot write the suggestion now; see "
               "`Retry-After`."},
            key=True, example={"q": "A dog.", "s": "A good dog."} | _PAIR,
        ),
        Operation(
            "GET", "/languages", "List the languages, and what each is translated to.", (),
            {200: "Languages with `code`, `name` and `targets`."} | _LOADING,
        ),
        Operation(
            "GET", "/frontend/settings", "Return what a web page needs to know.", (),
            {200: "The settings."} | _LOADING,
        ),
        Operation(
            "GET", "/health", "Say whether the server can translate.", (),
            {200: "`{\"status\": \"ok\"}`."} | _LOADING,
        ),
    ),
)  # fmt: skip

_NO_KEY = {401: "A key is needed.", 403: "The key is wrong."}

CROSSHEAD = Group(
    "crosshead",
    "Values come as a JSON object of exactly these types. An error is `{\"error\": \"...\"}`. "
    "Where the server needs a key, it is the header `Authorization: Bearer KEY`.",
    (
        Operation(
            "POST", "/v1/translate",
            "Translate texts, with scores, pieces, alternatives and the sentences of each text.",
            tuple(
                Value(
                    name, str(known.description), known.is_required(),
                    {"alternatives": "integer", "text": ""}.get(name, "string"), "json",
                    tuple(FORMATS) if name == "format" else (),
                )
                for name, known in TranslateRequest.model_fields.items()
            ),
            {200: "`translations`, and `detected_language` if the source was `auto` and the "
             "text has letters.",
             400: "The body is no JSON object, or a language or the document is wrong."}
            | _NO_KEY | _BODY | {422: "A value is missing or wrong; the message names it."} | _WORK,
            key=True, example={"text": "A dog runs.", "target": "TARGET", "source": "SOURCE"},
        ),
        Operation(
            "GET", "/v1/limits", "Return the largest request that is answered.", (),
            {200: "`characters`, `texts`, `alternatives` and `body_bytes`; 0 characters or texts "
             "are no limit."},
        ),
        Operation(
            "GET", "/v1/openapi.json", "Describe the operations of this group in OpenAPI 3.1.", (),
            {200: "The description."},
        ),
    ),
)  # fmt: skip

_TEXT = Value("text", "A text. A form repeats it for several, and JSON has a list.", needed=True)

DEEPL = Group(
    "DeepL",
    "Values come as a JSON object, a form or a query. An error is `{\"message\": \"...\"}`. Where "
    "the server needs a key, it is the header `Authorization: DeepL-Auth-Key KEY`.",
    (
        Operation(
            "POST", "/v2/translate", "Translate texts, each from its own language.",
            (
                _TEXT,
                Value("target_lang", "The target language, such as `DE` or `EN-US`.", needed=True),
                Value("source_lang", "The source language (default: detected for each text)."),
                Value("split_sentences", "`0`: one sentence. `1` (default): sentences, and line "
                      "breaks stay. `nonewlines`: sentences, and line breaks become spaces.",
                      choices=("0", "1", "nonewlines")),
                Value("tag_handling", "`html` keeps the tags of HTML.", choices=("html",)),
                Value("auth_key", "The key, if no header has it."),
            ),
            {200: "`translations`: `text`, `detected_source_language`, `billed_characters`.",
             400: "A value is missing or wrong, or a text's language is not translated to the "
             "target.", 403: "The key is missing or wrong."}
            | _BODY | _WORK,
            key=True, example={"text": "A dog runs.", "target_lang": "TARGET"},
        ),
        Operation(
            "GET", "/v2/languages", "List the source or target languages.",
            (Value("type", "`source` (default) or `target`.", place="query",
                   choices=("source", "target")),),
            {200: "Languages with `language` and `name`.", 400: "The type is unknown.",
             403: "The key is missing or wrong.", 408: _BODY[408], 413: _BODY[413]}
            | _OFTEN | _LOADING,
            key=True, example={"type": "target"},
        ),
        Operation(
            "GET", "/v2/usage", "Count the translated characters of the client.", (),
            {200: "`character_count` and `character_limit`.", 403: "The key is missing or wrong."}
            | _OFTEN,
            key=True,
        ),
    ),
)  # fmt: skip

_HTML = "text/html"
_FILE = {200: "The file.", 304: "The browser has it already."}

OPERATION = Group(
    "Operation and pages",
    "Paths for people, and for the programs that watch the server.",
    (
        Operation("GET", "/", "Show the page that translates.", (), _FILE, _HTML),
        Operation(
            "GET", "/page/{name}", "Return a file of the pages.",
            (Value("name", "The name of the file.", needed=True, place="path"),),
            _FILE | {404: "There is no such file."}, "*/*", example=None,
        ),
        Operation("GET", "/docs", "Show this description.", (), {200: "The page."}, _HTML),
        Operation("GET", "/spec", "Describe every operation in Swagger 2.", (),
                  {200: "The description."}),
        Operation("GET", "/livez", "Say that the process runs.", (), {200: "`ok`."},
                  "text/plain"),
        Operation(
            "GET", "/readyz", "Say whether the server can translate.", (),
            {200: "It can.", 503: "It is loading, or a worker has ended."}, "text/plain",
        ),
        Operation(
            "GET", "/metrics", "Return the counts of the server in Prometheus' format.", (),
            {200: "The counts."} | _NO_KEY | _OFTEN, "text/plain", key=True,
        ),
    ),
)  # fmt: skip

GROUPS = (LIBRETRANSLATE, CROSSHEAD, DEEPL, OPERATION)
"""Every operation of the server."""


def swagger() -> dict[str, Any]:
    """Return the description of every operation in Swagger 2."""
    paths: dict[str, Any] = {}
    for group in GROUPS:
        for operation in group.operations:
            described = {
                "tags": [group.name],
                "summary": operation.summary,
                "produces": [operation.form],
                "parameters": _parameters(operation.values),
                "responses": _responses(operation),
            }
            if takes := _consumed(operation.values):
                described["consumes"] = takes
            paths.setdefault(operation.path, {})[operation.method.lower()] = described
    tags = [{"name": group.name, "description": group.text} for group in GROUPS]
    info = {"title": "crosshead", "version": __version__}
    return {"swagger": "2.0", "info": info, "tags": tags, "paths": paths}


def openapi() -> dict[str, Any]:
    """Return the description of crosshead's own operations in OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    for operation in CROSSHEAD.operations:
        described: dict[str, Any] = {
            "summary": operation.summary,
            "responses": _responses(operation),
        }
        if operation.values:
            content = {"application/json": {"schema": TranslateRequest.model_json_schema()}}
            described["requestBody"] = {"required": True, "content": content}
        paths[operation.path] = {operation.method.lower(): described}
    info = {"title": "crosshead", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths}


def _responses(operation: Operation) -> dict[str, Any]:
    return {
        str(status): {"description": text} for status, text in sorted(operation.answers.items())
    }


def _consumed(values: Sequence[Value]) -> list[str]:
    """Return the types of the body of a request, as far as Swagger 2 can tell them."""
    if any(value.kind == "file" for value in values):
        return ["multipart/form-data"]
    places = {value.place for value in values}
    if "json" in places:
        return ["application/json"]
    return ["application/x-www-form-urlencoded"] if "form" in places else []


def _parameters(values: Sequence[Value]) -> list[dict[str, Any]]:
    """Return the parameters of an operation; values in JSON are one parameter, the body."""
    inside = [value for value in values if value.place == "json"]
    if inside:
        schema = {
            "type": "object",
            "required": [value.name for value in inside if value.needed],
            "properties": {value.name: _typed(value) for value in inside},
            "additionalProperties": False,
        }
        return [{"name": "body", "in": "body", "required": True, "schema": schema}]
    return [
        {
            "name": value.name,
            "in": "formData" if value.place == "form" else value.place,
            "required": value.needed,
        }
        | _typed(value)
        for value in values
    ]


def _typed(value: Value) -> dict[str, Any]:
    found: dict[str, Any] = {"description": value.text}
    if value.kind:
        found["type"] = value.kind
    if value.choices:
        found["enum"] = list(value.choices)
    return found
