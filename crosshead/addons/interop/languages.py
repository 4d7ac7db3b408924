"""The languages of an exported model, where the user names them and its bundle does not."""

from dataclasses import replace

from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import option
from crosshead.errors import ConfigError
from crosshead.text.parallel.languages import looks_like_code


def with_languages(bundle: Bundle, source: str | None, target: str | None) -> Bundle:
    """Return a bundle with the languages that the user names."""
    given = {"source": source, "target": target}
    named = {side: code for side, code in given.items() if code is not None}
    if not named:
        return bundle
    names = {side: option(f"{side}-language", code) for side, code in named.items()}
    if not isinstance(bundle, TextBundle) or bundle.config.model.vocabularies == 1:
        raise ConfigError(f"{' and '.join(names.values())}: only translation models have languages")
    config = bundle.config
    for side, name in names.items():
        if not looks_like_code(named[side]):
            raise ConfigError(f"{name}: expected a language code such as en or pt-BR")
        named[side] = named[side].replace("_", "-")  # as in BCP 47
        known = config.source_language if side == "source" else config.target_language
        if side == "target" and config.target_languages:
            known = ", ".join(config.target_languages)
        if known not in (None, named[side]):
            raise ConfigError(
                f"{name}: the bundle says {known}; leave {option(f'{side}-language')} out"
            )
    found = {f"{side}_language": code for side, code in named.items()}
    return replace(bundle, config=config.model_copy(update=found))
