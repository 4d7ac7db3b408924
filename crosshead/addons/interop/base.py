"""The interface of foreign formats: one entry of `FORMATS` holds all that a format is."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from crosshead.bundle.base import Bundle
from crosshead.bundle.card import Words, inline_code
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.caller import option
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.models.attention_kinds import POSITIONS
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.translation.translator import Translator
from crosshead.text.batching import Example
from crosshead.text.imported import ImportedTokenizer
from crosshead.text.parallel.languages import looks_like_code, tag_of
from crosshead.text.streams import encode_text, with_prompt_start
from crosshead.version import __version__
from crosshead.vocabulary import PAD

EXAMPLE = "A dog runs."
"""The text that the programs of exports translate."""

OWN_POSITIONS = tuple(POSITIONS)
"""The positions of crosshead's own; a program may register others."""


def tagged_example(bundle: TextBundle) -> str:
    """Return the example as a model of several target languages reads it: after the first tag."""
    languages = bundle.config.target_languages
    return f"{tag_of(languages[0])} {EXAMPLE}" if languages else EXAMPLE


def words(config: TextBundleConfig) -> Words:
    """Return the words of the model card of a translation model or of a language model."""
    pipeline = Translator if config.model.vocabularies == 2 else TextGenerator
    return pipeline.words(config)


def named_languages(source: str | None, target: str | None) -> dict[str, str]:
    """Return the languages that the user names, by their keys in the configuration of a bundle."""
    given = {"source_language": source, "target_language": target}
    named = {key: code for key, code in given.items() if code is not None}
    for key, code in named.items():
        if not looks_like_code(code):
            raise ConfigError(
                f"{option(key.replace('_', '-'))}: expected a language code such as en or pt-BR, "
                f"found {code!r}"
            )
    return {key: code.replace("_", "-") for key, code in named.items()}


def about(bundle: TextBundle) -> str:
    """Return what a model does, its origin and its licence, as far as they are known."""
    config = bundle.config
    parts = [f"A model that {words(config).does}, exported with crosshead {__version__}."]
    if config.origin:
        parts.append(f"It was fine-tuned or imported from {config.origin}.")
    if config.license:
        parts.append(f"Licence: {inline_code(config.license)}.")
    return " ".join(parts)


def json_bytes(values: Mapping[str, Any]) -> bytes:
    """Return values as a JSON file."""
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def prompted(bundle: TextBundle, prompt: str) -> list[int]:
    """Return the ids that a language model reads to continue a prompt."""
    tokenizer = bundle.target_tokenizer
    return with_prompt_start(tokenizer, encode_text(tokenizer, prompt).tolist())


@dataclass(frozen=True)
class ForeignSearch:
    """The settings of the search that travel with an export.

    Attributes:
        beam: The number of hypotheses; 1 is greedy search.
        length_penalty: The exponent p in score = log P / length^p, the form of CTranslate2 and
            Hugging Face. `DecodeConfig` has another form.
        max_length: The largest number of tokens of an output, end included, or of a continuation.
        sample: True samples continuations instead of searching for them.
        temperature: The divisor of the logits before sampling.
        top_k: Sample only from this many most probable tokens; 0 is no limit.
        top_p: Sample only from the fewest most probable tokens that have this probability together.
        exact: True ends beam search only when no unfinished hypothesis can become better, which
            Hugging Face alone has as a setting. False leaves the end to the library.
        min_length: The smallest number of tokens of an output, without its end.
    """

    beam: int
    length_penalty: float
    max_length: int
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    exact: bool = False
    min_length: int = 0

    def decode(self, **others: Any) -> DecodeConfig:
        """Return the settings of crosshead's search with this length penalty, and others."""
        known = {key: getattr(self, key) for key in ("beam", "length_penalty", "min_length")}
        return DecodeConfig(length_offset=0.0, max_extra=1000, **known, **others)

    def __str__(self) -> str:
        """Return the settings as a clause."""
        if self.sample:
            limits = f"top-k {self.top_k}, top-p {self.top_p:g}"
            return f"samples, temperature {self.temperature:g}, {limits}"
        if self.beam == 1:
            return "greedy search"
        return f"beam {self.beam}, length penalty {self.length_penalty:g} (length^p)"


class Foreign(Protocol):
    """An exported model as its own library loads it, for verification.

    It encodes and decodes with the files of the export, as a program without crosshead does.
    """

    @property
    def computes(self) -> str:
        """The number format that the library computes in; empty if it is that of the weights."""
        ...

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the bundle's token ids of what the model reads for each line, without the end."""
        ...

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of outputs."""
        ...

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the translation of each line as a user of the library gets it.

        A language model returns the continuation of each line.
        """
        ...

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token and of the end, under teacher forcing.

        Only the tokens that search may produce count: their probabilities add up to 1.
        """
        ...


@dataclass(frozen=True)
class Tolerance:
    """The differences from crosshead that an export may have.

    Attributes:
        log_prob: The largest difference of the log-probability of a token, in nats.
        mean: The largest mean of these differences, in nats.
        different: The largest share of outputs that differ, in percent.
    """

    log_prob: float
    mean: float
    different: int


class Limit(NamedTuple):
    """A property of bundles that a format cannot express."""

    name: str
    holds: Callable[[TextBundle], bool]
    instead: str
    """A clause in the imperative: what works instead."""


def _without_control(bundle: TextBundle) -> bool:
    return any(
        tokenizer.vocabulary.control[index] is None
        for tokenizer in (bundle.source_tokenizer, bundle.target_tokenizer)
        if isinstance(tokenizer, ImportedTokenizer)
        for index in (PAD, bundle.specials.start)
    )


def _other_widths(bundle: TextBundle) -> bool:
    model: Any = bundle.config.model
    return {model.key_width, model.value_width} != {model.d_model // model.heads}


WITHOUT_CONTROL = Limit(
    "an imported vocabulary without padding or start",
    _without_control,
    "the library pads with a piece and begins with one: export to ctranslate2",
)
OTHER_WIDTHS = Limit(
    "model.d_key or model.d_value other than d_model / heads", _other_widths, "leave both out"
)


@dataclass(frozen=True)
class Export:
    """The export of the models of one architecture to a format.

    Attributes:
        name: The name of the format, which is the value of `--to`.
        modules: The modules that `load` imports.
        writes_with: The modules that `write` imports.
        accepts: The values of settings that the format has, by name, such as `model.norm`. Of other
            settings it has every value.
        types: The tolerance of each number format of the weights, by name; the first is the
            default.
        write: Writes the model, without search settings, into an empty directory. It receives the
            bundle, the number format and the directory.
        write_search: Adds the search settings to a written export. It receives the bundle, the
            settings and the directory.
        load: Loads what `write` has written with the foreign library.
        usage: Returns a program that loads the export and uses it, without crosshead. It receives
            the bundle and the path of the export.
        architecture: The architecture of the models.
        refuses: What the format cannot express beside the settings.
        language: The language of the program, as Markdown names it.
        library: The library that loads the export, as model hubs name it.
        notes: Further sentences on its use, in Markdown.
        suffix: The suffix of an export that is one file, which is then the only file that `write`
            leaves in the directory; empty for a directory.
        fixed_search: The search of the foreign library, if an export cannot change it.
    """

    name: str
    modules: tuple[str, ...]
    accepts: Mapping[str, tuple[Any, ...]]
    types: Mapping[str, Tolerance]
    write: Callable[[TextBundle, str, Path], None]
    write_search: Callable[[TextBundle, ForeignSearch, Path], None]
    load: Callable[[TextBundle, Path], Foreign]
    usage: Callable[[TextBundle, str], str]
    architecture: str = "transformer"
    refuses: tuple[Limit, ...] = ()
    writes_with: tuple[str, ...] = ()
    suffix: str = ""
    fixed_search: ForeignSearch | None = None
    language: str = "python"
    library: str = ""
    notes: str = ""

    def refusals(self, bundle: Bundle) -> list[str]:
        """Return what the format cannot express of a bundle, with what works instead."""
        architecture = bundle.config.model.architecture
        if architecture != self.architecture or not isinstance(bundle, TextBundle):
            return [f"model.architecture = {architecture} (only {self.architecture})"]
        found = []
        for key, accepted in self.accepts.items():
            only = " or ".join(map(_shown, accepted))
            found += [
                f"{key} = {_shown(value)} (only {only})"
                for value in _values(bundle, key)
                if value not in accepted
            ]
        return found + [f"{name} ({to})" for name, holds, to in self.refuses if holds(bundle)]


def _values(bundle: TextBundle, key: str) -> list[Any]:
    """Return the values of a setting of a bundle; of the tokenizers, those of both."""
    if key == "tokenizer.kind":
        return [*dict.fromkeys([bundle.source_tokenizer.kind, bundle.target_tokenizer.kind])]
    section, _, name = key.partition(".")
    return [getattr(getattr(bundle.config, section), name)]


def _shown(value: object) -> str:
    return str(value).lower()


@dataclass(frozen=True)
class Imported:
    """A model of another toolkit as a bundle.

    Attributes:
        bundle: The bundle.
        notes: Sentences about settings that do not come along.
    """

    bundle: TextBundle
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Format:
    """A format of models of another library, for exports and imports.

    Attributes:
        name: The value of `--to`, and of `--kind` of `crosshead import`.
        exports: The exports to it, one for an architecture.
        read: Returns the model of a directory as a bundle. It receives the directory and the name
            of the model. None if models of the format cannot be imported.
        weights: The patterns of the files of weights that `read` takes.
        files: The patterns of the other files that it takes.
    """

    name: str
    exports: tuple[Export, ...] = ()
    read: Callable[[Path, str], Imported] | None = None
    weights: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
