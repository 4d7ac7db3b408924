"""The languages and the licence of a foreign model, as the user or a text of the model states them.

The user's languages come first, then those in the files of the model, in its README.md (as OPUS-MT
and exports of crosshead have them), and in its name.
"""

import re
from dataclasses import replace
from pathlib import Path

from crosshead.addons.interop.base import Imported
from crosshead.addons.interop.imports.reading import ForeignDirectory, ForeignModelError
from crosshead.bundle.places import CARD
from crosshead.caller import option
from crosshead.errors import ConfigError
from crosshead.text.parallel.languages import language_code, looks_like_code

Languages = tuple[str | None, str | None]
"""The language codes of source and target; None for an unknown one."""

_SIDES = ("source", "target")

_OPUS = re.compile(r"opus-mt-(?:tc-[a-z]+-)?([A-Za-z_]+)-([A-Za-z_]+)(?![A-Za-z_])")
_PAIR = re.compile(r"([A-Za-z_]+)-([A-Za-z_]+)(?:\.zip)?")

_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_LICENCE = re.compile(
    r"""^license[ \t]*:[ \t]*(["']?)([A-Za-z0-9][A-Za-z0-9.+-]{0,199})\1"""
    r"[ \t]*(?:#.*)?$(?!\n[ \t])",
    re.MULTILINE,
)
_NOTHING = {"null", "no", "false"}

_EXPORTED = re.compile("translates from `([^`\n]+)` to `([^`\n]+)`, exported with crosshead ")
"""The sentence in the README.md of an export by crosshead."""


def with_stated_facts(
    imported: Imported, directory: Path, name: str, languages: Languages
) -> Imported:
    """Return an imported model with its languages and its licence, as far as they are stated."""
    bundle, notes, text = imported.bundle, [*imported.notes], _card(directory)
    config = bundle.config
    found = _first(languages, (config.source_language, config.target_language))
    if config.model.vocabularies == 2 and not all(found):
        places = {CARD: readme_languages(text), name: name_languages(name)}
        for place, codes in places.items():
            agrees = all(one in (None, other) for one, other in zip(found, codes, strict=True))
            if all(codes) and agrees and not all(found):
                found = codes
                notes.append(
                    f"the languages are {found[0]} to {found[1]} by {place}; "
                    "--source-language and --target-language state others"
                )
        if not all(found):
            notes.append(
                "the files do not say which languages the model translates, which an export to "
                "Argos Translate needs; state them with --source-language and --target-language"
            )
    changes = {
        "source_language": found[0],
        "target_language": found[1],
        "license": licence_of(text) or config.license,
    }
    return Imported(replace(bundle, config=config.model_copy(update=changes)), notes)


def check_languages(languages: Languages) -> None:
    """Check that what the user states are language codes."""
    for side, code in zip(_SIDES, languages, strict=True):
        if code is not None and not looks_like_code(code):
            raise ConfigError(
                f"{option(f'{side}-language')}: expected a language code such as en or pt-BR, "
                f"found {code!r}"
            )


def _first(stated: Languages, others: Languages) -> Languages:
    return stated[0] or others[0], stated[1] or others[1]


def _card(directory: Path) -> str:
    """Return the README.md of a directory, or an empty text."""
    files = ForeignDirectory(directory)
    if not files.has(CARD):
        return ""
    try:
        return files.bytes(CARD).decode(errors="replace")
    except ForeignModelError:  # no regular file, or too large
        return ""


def readme_languages(text: str) -> Languages:
    """Return the languages that the README.md of an OPUS-MT archive or of an export names.

    In an archive, lines are such as `* source language(s): en`; a side of several languages is
    unknown. In an export by crosshead, a sentence names both.
    """
    if exported := _EXPORTED.search(text):
        return language_code(exported[1]), language_code(exported[2])
    found = []
    for side in _SIDES:
        line = re.search(rf"^[*-]?\s*{side}[ _]languages?(?:\(s\))?:(.*)$", text, re.MULTILINE)
        found.append(language_code(line[1].strip()) if line else None)
    return found[0], found[1]


def name_languages(name: str) -> Languages:
    """Return the languages in the name of a model, such as `opus-mt-en-de` or `en-de`.

    Both are None if one of them is no code, as in `opus-mt-en-ROMANCE`.
    """
    last = name.rpartition("/")[2]
    match = _OPUS.search(last) or _PAIR.fullmatch(last)
    codes = [language_code(each) for each in match.groups()] if match else []
    if not all(codes) or len({*codes}) < 2:
        return None, None
    return codes[0], codes[1]


def licence_of(text: str) -> str | None:
    """Return the licence in the front matter of a model card, or None.

    Only a name such as `cc-by-4.0` on the line of the key is one: a wrong licence is worse than
    none.
    """
    front = _FRONT_MATTER.match(text.replace("\r\n", "\n"))
    found = [match[2] for match in _LICENCE.finditer(front[1])] if front else []
    return found[0] if len(found) == 1 and found[0].lower() not in _NOTHING else None
