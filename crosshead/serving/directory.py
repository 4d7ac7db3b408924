"""The bundles of a server: translators by pairs of languages, and ways through a third language."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crosshead.errors import UserError
from crosshead.pipelines.translator import Translator
from crosshead.serving.engine import Engine
from crosshead.serving.model_engine import model_engines
from crosshead.tasks.loading import load_as

Engines = Callable[[int], Engine]
"""A function that makes an engine for a beam."""

_NAMED = re.compile(r"([A-Za-z]{2,3}(?:-[A-Za-z]{2,8})?)-([A-Za-z]{2,3}(?:-[A-Za-z]{2,8})?)=(.+)")


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
        """Return the engine for a number of hypotheses.

        Args:
            wanted: The number of hypotheses; the beam is at least as large.
        """
        beam = max(self.translator.bundle.config.decode.beam, wanted)
        if beam not in self.engines:
            self.engines[beam] = self.make(beam)
        return self.engines[beam]

    def limit(self, ids: Sequence[int]) -> int:
        """Return the longest output of a source in tokens.

        Args:
            ids: The source, without eos.
        """
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
        """Return the languages that a language can be translated to, itself included.

        Args:
            source: The code of the source language.
        """
        return [code for code in self.languages if self.way(source, code) is not None]

    def way(self, source: str, target: str) -> list[LanguagePair] | None:
        """Return the pairs from a language to another: none, one, or two by a third language.

        Args:
            source: The code of the source language.
            target: The code of the target language.

        Returns:
            The pairs in order, empty if the languages are equal, or None if there is no way.
        """
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
    """Load bundles.

    Args:
        places: Bundles, each as a path, or as `en-de=PATH` to name its languages.
        say: Called with a line before a bundle is loaded.
        device: The device, as `crosshead.load` takes it.
        engines: Returns what makes the engines of a translator.

    Raises:
        ConfigError: If the engine cannot express a model.
        ServeError: If two bundles translate the same pair, or a bundle does not name its languages.
        BundleError: If there is no bundle at a place, or it does not translate text.
    """
    pairs: dict[tuple[str, str], LanguagePair] = {}
    for number, place in enumerate(places, 1):
        named = _NAMED.fullmatch(place)
        path = named[3] if named and not Path(place).exists() else place
        say(f"loading {path} ({number} of {len(places)})")
        translator = load_as(Translator, path, device, instead="serve translates text only")
        codes = (named[1], named[2]) if named and path != place else None
        for pair in _pairs(translator, path, codes, engines):
            other = pairs.setdefault((pair.source, pair.target), pair)
            if other is not pair:
                raise ServeError(
                    f"{other.place} and {path} both translate {pair.source} to {pair.target}; "
                    "serve one of them"
                )
    for pair in pairs.values():
        pair.engine(1)
    return Directory(pairs)


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
        source, targets = codes[0], (codes[1],)
    if source is None or None in targets:
        raise ServeError(
            f"{place} does not say which languages it translates; name them, such as "
            f"`crosshead serve en-de={place}`"
        )
    into = {str(code): translator for code in targets}
    if config.target_languages:
        into = {code: translator.into(code) for code in into}
    make, made = engines(translator), dict[int, Engine]()
    return [LanguagePair(source, code, each, place, make, made) for code, each in into.items()]
