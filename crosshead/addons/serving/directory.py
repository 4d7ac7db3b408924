"""The bundles of a server: translators by pairs of languages, and ways through a third language."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from crosshead.addons.serving.languages import canonical, familiarity
from crosshead.errors import UserError
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.engine import Engine, Engines
from crosshead.tasks.translation.model_engine import model_engines
from crosshead.tasks.translation.translator import Translator

_NAMED = re.compile(r"([^/=]*)=(.+)")
_CODE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z]{2,8})?")


class ServeError(UserError):
    """A server cannot start with these bundles or settings."""


@dataclass(eq=False)
class LanguagePair:
    """A translator for a pair of languages, and its engines.

    Attributes:
        source: The code of the source language.
        target: The code of the target language.
        translator: The translator.
        place: The bundle, as it was given.
        engines: Returns the engine for a beam.
    """

    source: str
    target: str
    translator: Translator
    place: str
    engines: Engines

    def engine(self, wanted: int) -> Engine:
        """Return the engine for a number of hypotheses."""
        return self.engines(max(self.translator.bundle.config.decode.beam, wanted))

    def limit(self, ids: Sequence[int]) -> int:
        """Return the longest output of a source in tokens."""
        longest = len(ids) + 1 + self.translator.bundle.config.decode.max_extra
        most = self.translator.most_positions[1]
        return longest if most is None else min(longest, most)


@dataclass(frozen=True)
class Directory:
    """The language pairs of a server."""

    pairs: Mapping[tuple[str, str], LanguagePair]

    @property
    def languages(self) -> list[str]:
        """The codes of all languages, sorted."""
        return sorted({code for pair in self.pairs for code in pair})

    def targets(self, source: str) -> list[str]:
        """Return the languages that a language can be translated to, itself included."""
        return [code for code in self.languages if self.way(source, code) is not None]

    def way(self, source: str, target: str) -> list[LanguagePair] | None:
        """Return the pairs from a language to another: none, one, or two by a third language."""
        if source == target:
            return []
        if (source, target) in self.pairs:
            return [self.pairs[source, target]]
        for middle in self.languages:
            first, second = self.pairs.get((source, middle)), self.pairs.get((middle, target))
            if first is not None and second is not None:
                return [first, second]
        return None


def load_directory(
    places: Sequence[str],
    say: Callable[[str], None],
    device: str = "auto",
    engines: Callable[[Translator], Engines] = model_engines,
) -> Directory:
    """Load bundles."""
    pairs: dict[tuple[str, str], LanguagePair] = {}
    for number, place in enumerate(places, 1):
        codes, path = _codes_and_path(place)
        shown = path if codes is None else f"{path} as {codes[0]}-{codes[1]}"
        say(f"loading {shown} ({number} of {len(places)})")
        translator = load_as(Translator, path, device)
        for pair in _pairs(translator, place, codes, engines):
            other = pairs.setdefault((pair.source, pair.target), pair)
            if other is not pair:
                raise ServeError(
                    f"{other.place} and {place} both translate {pair.source} to {pair.target}; "
                    "serve one of them"
                )
    for pair in pairs.values():
        pair.engine(1)
    return Directory(pairs)


def _codes_and_path(place: str) -> tuple[tuple[str, str] | None, str]:
    """Return the languages that a place names, or None, and its path."""
    named = _NAMED.fullmatch(place)
    if named is None or Path(place).exists():
        return None, place
    parts = named[1].split("-")
    pairs = [("-".join(parts[:end]), "-".join(parts[end:])) for end in (1, 2)]
    pairs = [pair for pair in pairs if all(_CODE.fullmatch(code) for code in pair)]
    if not pairs:
        raise ServeError(f"{place}: {named[1]} is no language pair; write it as en-de=PATH")
    # `en-pt-BR` is English to Brazilian Portuguese: the codes of languages decide.
    source, target = max(pairs, key=lambda pair: sum(map(familiarity, pair)))
    return (canonical(source), canonical(target)), named[2]


def _pairs(
    translator: Translator,
    place: str,
    codes: tuple[str, str] | None,
    engines: Callable[[Translator], Engines],
) -> list[LanguagePair]:
    """Return the language pairs of one bundle."""
    config = translator.bundle.config
    if config.decode.sample:
        raise ServeError(
            f"{place} draws samples; in its config.json, set decode.sample to false and remove "
            "config_sha256"
        )
    targets = config.target_languages or (config.target_language,)
    source = config.source_language
    if codes is not None:
        # A bundle of several targets knows them in its own case.
        own = {canonical(code): code for code in config.target_languages or ()}
        source, targets = codes[0], (own.get(codes[1], codes[1]),)
    if source is None or None in targets:
        raise ServeError(
            f"{place} does not say which languages it translates; name them, such as "
            f"`crosshead serve en-de={place}`"
        )
    into = {str(code): translator for code in targets}
    if config.target_languages:
        into = {code: translator.into(code) for code in into}
    made = functools.cache(engines(translator))
    return [
        LanguagePair(canonical(source), canonical(code), each, place, made)
        for code, each in into.items()
    ]
