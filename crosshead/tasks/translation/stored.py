"""Translation without PyTorch, with a model that an engine has stored beside the bundle."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from crosshead.bundle.texts import BundleState, TextParts, read_parts
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.tasks.translation.engine import Search, StoredModel, packages_engines
from crosshead.tasks.translation.line_translator import Alignments, MostPositions, PlannedLines
from crosshead.tasks.translation.text_translator import TextTranslator


class StoredTranslator(TextTranslator):
    """Translates with a stored model."""

    def __init__(self, bundle: TextParts, model: StoredModel) -> None:
        super().__init__(bundle)
        self._model = model

    @property
    def most_positions(self) -> MostPositions:
        """The largest number of positions of a source and of a target, or None without a limit."""
        return self._model.most_positions

    @property
    def alignments(self) -> Alignments:
        """The alignments of the model."""
        return self._model.alignments

    def searcher(self, planned: PlannedLines, decode: DecodeConfig, scored: bool) -> Search:
        """Return the search of the engine."""
        if decode != self._model.decode:
            raise ConfigError("a stored model has one search; load the bundle for another one")
        search = self._model.search
        return search._replace(find=partial(search.find, planned.ids, scored=scored))


def stored_translator(
    place: Path, name: str, settings: Callable[[DecodeConfig], DecodeConfig], workers: int
) -> StoredTranslator | None:
    """Return the translator with a model that the engine of a name has stored beside a bundle.

    `settings` returns those of the search, from those of the bundle. None is returned if no stored
    model suits them. The bundle must then be loaded, which also says what is wrong with it.
    """
    engines, state = packages_engines(name), BundleState.of(place)
    try:
        parts = state and read_parts(place)
    except UserError:
        return None
    if not state or not parts or not state.is_current:
        return None
    for engine in engines.values():
        decode = settings(parts.config.decode)
        if model := engine.stored(state, parts, decode, workers):
            return StoredTranslator(parts, model)
    return None
