"""The bundles of a server: translators by pairs of languages, and ways through a third language."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crosshead.addons.serving.engine import Engine
from crosshead.addons.serving.languages import ALIASES
from crosshead.addons.serving.model_engine import model_engines
from crosshead.errors import UserError
from crosshead.pipelines.translator import Translator
from crosshead.tasks.loading import load_as
from crosshead.text.parallel.languages import language_code

Engines = Callable[[int], Engine]
"""A function that makes an engine for a beam."""

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
        place: The bundle, for messages.
        make: Makes an engine for a beam.
        engines: The engines that have been made, by the beam.
    """

    source: str
    target: str
    translator: Translator
    place: str
    make: Engines
    engines: dict[int, Engine] = field(default_factory=dict)

    def engine(self, wanted: int) -> Engine:
        """Return the engine for a number of hypotheses."""
        beam = max(self.translator.bundle.config.decode.beam, wanted)
        if beam not in self.engines:
            self.engines[beam] = self.make(beam)
        return self.engines[beam]

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
    given: dict[tuple[str, str], str] = {}
    for number, place in enumerate(places, 1):
        codes, path = _codes_and_path(place)
        shown = path if codes is None else f"{path} as {codes[0]}-{codes[1]}"
        say(f"loading {shown} ({number} of {len(places)})")
        translator = load_as(Translator, path, device, instead="serve translates text only")
        if codes is not None and (own := _other_languages(translator, codes)):
            say(f"{place}: this bundle translates {own}; it is served as {codes[0]} to {codes[1]}")
        for pair in _pairs(translator, path, codes, engines):
            key = (pair.source, pair.target)
            if key in pairs:
                if given[key] == place:
                    raise ServeError(f"{place} is given twice; give it once")
                raise ServeError(
                    f"{given[key]} and {place} both translate {pair.source} to {pair.target}; "
                    "serve one of them"
                )
            pairs[key], given[key] = pair, place
    for pair in pairs.values():
        pair.engine(1)
    return Directory(pairs)


def _codes_and_path(place: str) -> tuple[tuple[str, str] | None, str]:
    """Return the languages that a place names, or None, and its path."""
    named = _NAMED.fullmatch(place)
    if named is None or Path(place).exists():
        return None, place
    parts = named[1].split("-")
    pairs = [("-".join(parts[:end]), "-".join(parts[end:])) for end in (2, 1)]
    pairs = [pair for pair in pairs if all(_CODE.fullmatch(code) for code in pair)]
    if not pairs:
        raise ServeError(f"{place}: {named[1]} is no language pair; write it as en-de=PATH")
    # `en-pt-BR` is English to Brazilian Portuguese: the codes of languages decide.
    source, target = max(pairs, key=lambda pair: sum(map(_is_usual, pair)))
    return (_canonical(source), _canonical(target)), named[2]


def _is_usual(code: str) -> bool:
    found = code.lower()
    return found in ALIASES.values() or ("-" not in code and language_code(found) is not None)


def _canonical(code: str) -> str:
    """Return a language code in its usual case, such as `en`, `pt-BR` or `zh-Hans`.

    Requests may write a code in any case, so two spellings of one code must not be two languages.
    """
    language, *others = code.split("-")
    cases = {2: str.upper, 4: str.title}
    return "-".join([language.lower(), *(cases.get(len(each), str.lower)(each) for each in others)])


def _other_languages(translator: Translator, codes: tuple[str, str]) -> str | None:
    """Return the languages that the bundle itself names, or None if they do not contradict."""
    config = translator.bundle.config
    source, targets = config.source_language, config.target_languages or (config.target_language,)
    if source is None or None in targets:
        return None
    own = [_canonical(str(code)) for code in targets]
    if codes[0] == _canonical(source) and codes[1] in own:
        return None
    return f"{_canonical(source)} to {', '.join(own)}"


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
            f"{place} draws samples (decode.sample = true), and the server searches; in its "
            "config.json, set decode.sample to false and remove config_sha256"
        )
    targets = config.target_languages or (config.target_language,)
    source = config.source_language
    if codes is not None:
        # A bundle of several targets knows them in its own case.
        own = {_canonical(code): code for code in config.target_languages or ()}
        source, targets = codes[0], (own.get(codes[1], codes[1]),)
    if source is None or None in targets:
        raise ServeError(
            f"{place} does not say which languages it translates; name them, such as "
            f"`crosshead serve en-de={place}`"
        )
    into = {str(code): translator for code in targets}
    if config.target_languages:
        into = {code: translator.into(code) for code in into}
    make, made = engines(translator), dict[int, Engine]()
    return [
        LanguagePair(_canonical(source), _canonical(code), each, place, make, made)
        for code, each in into.items()
    ]
