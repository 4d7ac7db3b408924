"""The languages of a run, by the names of its files and columns."""

from collections.abc import Iterator, Sequence

from crosshead.data.parallel.corpora import DataConfig
from crosshead.data.parallel.languages import language_code, suffix_language
from crosshead.recipe.recipe import Recipe


def with_languages(recipe: Recipe) -> tuple[Recipe, list[str]]:
    """Fill in the languages that a recipe does not state, where names tell both of them.

    Files of sources and targets have them as suffixes (`train.en`), and files of pairs as names of
    fields. What the recipe states stays. Names that tell one side only, or the same for both, tell
    nothing.

    Returns:
        The recipe, and a line that says what was filled in, in a list that may be empty.
    """
    data = recipe.data
    stated = data.source_language, data.target_language
    if recipe.model.task != "translation" or all(stated):
        return recipe, []
    found = [given or _only(codes) for given, codes in zip(stated, _codes(data), strict=True)]
    source, target = found
    if source is None or target is None or source == target:
        return recipe, []
    filled = data.model_copy(update={"source_language": source, "target_language": target})
    sides = " to ".join(
        code if given is None else f"{code} (as given)"
        for code, given in zip((source, target), stated, strict=True)
    )
    line = (
        f"languages: {sides}, by the names of files or fields (--source-language and "
        "--target-language name others)"
    )
    return recipe.model_copy(update={"data": filled}), [line]


def _codes(data: DataConfig) -> Iterator[list[str | None]]:
    """Yield for each side the languages that its names tell; None for a name without one."""
    fields: Sequence[str] = data.fields if data.pairs else []
    for side, files in enumerate((data.source, data.target)):
        yield [*map(suffix_language, files), *map(language_code, fields[side : side + 1])]


def _only(codes: Sequence[str | None]) -> str | None:
    """The language that all names tell that tell any, if there is one."""
    languages = set(codes) - {None}
    return languages.pop() if len(languages) == 1 else None
