"""DeepL's HTTP interface: translations of texts, languages and counts of characters."""

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.jobs import TranslationWork, excess_of
from crosshead.addons.serving.languages import Detection, matching
from crosshead.addons.serving.reading import Reading
from crosshead.addons.serving.requests import (
    RequestError,
    State,
    client_and_values,
    client_of,
    ready_service,
    with_error_responses,
)
from crosshead.text.parallel.languages import language_name

_NO_KEY = RequestError(403, "Authorization failed: send a key as `DeepL-Auth-Key KEY`.")
_NO_LIMIT = 10**12
"""The limit of characters that stands for none, as DeepL writes it."""

OTHERS = ("/v2/{path:path}", "/v3/{path:path}")
"""Every other path of DeepL's interface."""

_METHODS = ["DELETE", "GET", "PATCH", "POST", "PUT"]

_FORMATS = {"0": "flowing", "1": "text", "nonewlines": "flowing"}
"""The formats of plain texts by `split_sentences`."""

_REFUSED = (
    "custom_instructions", "glossary_id", "glossary_ids", "ignore_tags", "style_id",
    "translation_memory_id",
)  # fmt: skip
"""Parameters that change a translation and that no model here can follow."""

_VARIANTS = {
    "en": {"en-gb": "English (British)", "en-us": "English (American)"},
    "pt": {"pt-br": "Portuguese (Brazilian)", "pt-pt": "Portuguese (European)"},
}
"""Target languages that DeepL's clients ask for by their variants only, with their names."""


class DeepL:
    """The handlers of DeepL's interface."""

    def __init__(self, state: State) -> None:
        self.state = state

    def routes(self) -> list[Route]:
        """Return the routes."""
        paths = {
            "/v2/translate": (self.translate, "POST"),
            "/v2/languages": (self.languages, "GET"),
            "/v2/usage": (self.usage, "GET"),
        }
        return [
            *(
                Route(path, with_error_responses(handler, _error_response), methods=[method])
                for path, (handler, method) in paths.items()
            ),
            *(
                Route(path, with_error_responses(self.other, _error_response), methods=_METHODS)
                for path in OTHERS
            ),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate texts, each from its own language: `POST /v2/translate`."""
        client, values = await client_and_values(self.state, request, _NO_KEY, "auth_key", ["text"])
        texts, target = self._texts(values), _needed(values, "target_lang")
        reading = _reading(values)
        _check_supported(values)
        work = TranslationWork(self.state, request, client)
        directory = work.service.directory
        code = served_target(str(target), _reached(directory))
        if code is None:
            raise _not_supported("target_lang")
        source = _given_source(directory, values.get("source_lang"), code)
        if source is None:
            found = await work.detected([[text] for text in texts], reading)
            sources = _detected_sources(directory, found, code)
        else:
            sources = [source] * len(texts)
        numbers: dict[str, list[int]] = {}  # the texts of each source
        for number, each in enumerate(sources):
            numbers.setdefault(each, []).append(number)
        jobs = [
            work.job([texts[number] for number in mine], each, code, reading)
            for each, mine in numbers.items()
        ]
        answers = await work.translated(jobs)
        translations = {
            number: answer
            for mine, some in zip(numbers.values(), answers, strict=True)
            for number, answer in zip(mine, some, strict=True)
        }
        return JSONResponse({
            "translations": [
                {
                    "detected_source_language": each.split("-")[0].upper(),
                    "text": translations[number].text,
                    "billed_characters": len(texts[number]),
                }
                for number, each in enumerate(sources)
            ]
        })  # fmt: skip

    async def languages(self, request: Request) -> Response:
        """List source or target languages: `GET /v2/languages`."""
        # DeepL's own client sends the type as the body of its GET request.
        _, values = await client_and_values(self.state, request, _NO_KEY, "auth_key")
        kind = values.get("type") or "source"
        if kind not in ("source", "target"):
            raise _not_supported("type")
        directory = ready_service(self.state).directory
        if kind == "target":
            return JSONResponse([
                {"language": code.upper(), "name": name, "supports_formality": False}
                for code, name in target_names(directory).items()
            ])  # fmt: skip
        sources = {
            code.split("-")[0]: language_name(code.split("-")[0])
            for code in directory.languages
            if len(directory.targets(code)) > 1
        }
        return JSONResponse([
            {"language": code.upper(), "name": name} for code, name in sources.items()
        ])  # fmt: skip

    async def usage(self, request: Request) -> Response:
        """Return the characters that the client has had translated: `GET /v2/usage`."""
        client = client_of(self.state, request, _NO_KEY)
        count = self.state.usage.characters(client)
        return JSONResponse({"character_count": count, "character_limit": _NO_LIMIT})

    async def other(self, request: Request) -> Response:
        """Answer requests for what DeepL has beside these paths."""
        raise RequestError(404, f"Not found: this server offers no {request.url.path}.")

    def _texts(self, values: Mapping[str, Any]) -> list[str]:
        """Return the texts of a request, within the limits."""
        given = values.get("text")
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not texts:
            raise RequestError(400, "Parameter 'text' not specified.")
        if excess := excess_of(texts, self.state.settings):
            found, most = excess.found, excess.most
            if excess.unit == "texts":
                raise RequestError(400, f"Too many texts: {found}, at most {most}.")
            raise RequestError(413, f"Request too large: {found} characters, at most {most}.")
        if not all(isinstance(text, str) for text in texts):
            raise _not_supported("text")
        return texts


def served_target(code: str, known: Iterable[str]) -> str | None:
    """Return the served language that a target means, or None.

    Variants of English and Portuguese that are not served themselves mean the language.
    """
    known = list(known)
    found = matching(code, known)
    base = code.lower().split("-")[0]
    if found is None and code.lower() in _VARIANTS.get(base, ()):
        return matching(base, known)
    return found


def served_source(code: str, known: Iterable[str]) -> str | None:
    """Return the served language that a source means, or None.

    Sources have no variants: `PT` means Brazilian Portuguese if that alone is served.
    """
    known = list(known)
    found = served_target(code, known)
    if found is None and "-" not in code:
        variants = [each for each in known if each.lower().startswith(f"{code.lower()}-")]
        return variants[0] if len(variants) == 1 else None
    return found


def target_names(directory: Directory) -> dict[str, str]:
    """Return the names of target languages by the codes that DeepL's clients ask for."""
    reached = _reached(directory)
    names: dict[str, str] = {}
    for code in reached:
        variants = _VARIANTS.get(code.lower(), {code: language_name(code)})
        names.update({
            variant: name for variant, name in variants.items()
            if served_target(variant, reached) == code
        })  # fmt: skip
    return names


def _reached(directory: Directory) -> list[str]:
    """Return the languages that another language is translated to."""
    languages = directory.languages
    return [
        code for code in languages
        if any(code in directory.targets(other) for other in languages if other != code)
    ]  # fmt: skip


def _error_response(error: RequestError) -> Response:
    return JSONResponse({"message": error.message}, error.status, headers=error.headers)


def _not_supported(name: str) -> RequestError:
    return RequestError(400, f"Value for '{name}' not supported.")


def _needed(values: Mapping[str, Any], name: str) -> Any:
    value = values.get(name)
    if value is None or value == "":
        raise RequestError(400, f"Parameter '{name}' not specified.")
    return value


def _reading(values: Mapping[str, Any]) -> Reading:
    """Return the way in which the texts are read."""
    tags = values.get("tag_handling") or None
    if tags not in (None, "html"):
        raise _not_supported("tag_handling")
    given = values.get("split_sentences")
    kind = str(given) if given not in (None, "") else "nonewlines" if tags else "1"
    if kind not in _FORMATS or isinstance(given, bool):
        raise _not_supported("split_sentences")
    # White space is white space in HTML, so that only "0" differs there.
    return Reading("html" if tags else _FORMATS[kind], whole=kind == "0")


def _check_supported(values: Mapping[str, Any]) -> None:
    """Raise an error if the request asks for what would silently be left undone."""
    for name in _REFUSED:
        if values.get(name):
            raise RequestError(400, f"Parameter '{name}' is not supported by this server.")
    formality = str(values.get("formality") or "default")
    if formality in ("more", "less"):
        raise RequestError(400, "'formality' is not supported for given 'target_lang'.")
    if formality not in ("default", "prefer_more", "prefer_less"):
        raise _not_supported("formality")


def _given_source(directory: Directory, given: object, target: str) -> str | None:
    """Return the source language that a request names, or None if it is to be detected."""
    if given in (None, ""):
        return None
    source = served_source(str(given), directory.languages)
    if source is None or directory.way(source, target) is None:
        raise _not_supported("source_lang")
    return source


def _detected_sources(
    directory: Directory, found: Iterable[Iterable[Detection]], target: str
) -> list[str]:
    """Return the source language of each text, by the languages that it may be in."""
    possible = [code for code in directory.languages if directory.way(code, target) is not None]
    # A text without letters has no language. Any source will do, and rather not the target.
    unknown = next((code for code in possible if code != target), target)
    sources = [next((each.language for each in ranked), unknown) for ranked in found]
    for source in sources:
        if source not in possible:
            first, second = (f"{language_name(code)} ({code.upper()})" for code in (source, target))
            raise RequestError(
                400, f"A text is in {first}, and this server does not translate that to {second}."
            )
    return sources
