"""The interface of foreign formats, and how each expresses the options of a model.

The registry of formats is in `crosshead.addons.interop.formats`.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from crosshead.addons.interop.options import Option
from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.models.registry import CONFIGS
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.translation.translator import Translator
from crosshead.text.batching import Example
from crosshead.text.parallel.languages import tag_of
from crosshead.text.streams import encode_text, with_prompt_start

Status = Literal["exact", "rewritten", "refused"]


class Cell(NamedTuple):
    """The way in which a format expresses an option of a model."""

    status: Status
    """"exact": the format has the option. "rewritten": other weights give the same output.
    "refused": the format cannot express it."""
    note: str = ""
    """The rewriting, or what works instead: a clause in the imperative, such as `train with
    positions = rotary`."""


EXACT = Cell("exact")


def cells(options: Iterable[str], others: Mapping[str, Cell]) -> dict[str, Cell]:
    """Return the cell of each option: exact, unless `others` has another one."""
    return {name: others.get(name, EXACT) for name in options}


def valued(key: str, values: Iterable[str], cell: Cell) -> dict[str, Cell]:
    """Return one cell for several values of a key."""
    return {f"{key} = {value}": cell for value in values}


PATTERNS = ("window", "dilated", "strided", "fixed")
"""The patterns of attention other than `full`."""

SINUSOIDS = ("sinusoidal", "sinusoidal-halves", "sinusoidal-marian")
"""The positions that are sinusoids."""

OTHER_KINDS = ("words", "characters", "bytes")
"""The kinds of tokenizers without a SentencePiece model."""

SUBWORDS = "train with tokenizer.kind = bpe or unigram"
"""The note on these kinds in a format that needs such a model."""

OTHER_ARCHITECTURES = tuple(name for name in CONFIGS if name != "transformer")
"""The architectures that no format of translation models has."""


EXAMPLE = "A dog runs."
"""The text that the programs of exports translate."""


def tagged_example(bundle: TextBundle) -> str:
    """Return the example as a model of several target languages reads it: after the first tag."""
    languages = bundle.config.target_languages
    return f"{tag_of(languages[0])} {EXAMPLE}" if languages else EXAMPLE


def words(config: TextBundleConfig) -> Words:
    """Return the words of the model card of a translation model or of a language model."""
    pipeline = Translator if config.model.vocabularies == 2 else TextGenerator
    return pipeline.words(config)


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
    """

    beam: int
    length_penalty: float
    max_length: int
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    exact: bool = False


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


@dataclass(frozen=True)
class Format:
    """A foreign format for the models of an architecture.

    Attributes:
        name: The value of `--to`.
        options: The options of these models, by name.
        extra: The extra of crosshead that installs `modules`.
        modules: The modules that `load` imports.
        writes_with: The modules that `write` imports.
        cells: How the format expresses each option, by name.
        types: The tolerance of each number format of the weights, by name; the first is the
            default.
        write: Writes the model, without search settings, into an empty directory. It receives the
            bundle, the number format and the directory.
        write_search: Adds the search settings to a written export. It receives the bundle, the
            settings and the directory.
        load: Loads what `write` has written with the foreign library.
        usage: Returns a program that loads the export and uses it, without crosshead. It receives
            the bundle and the path of the export.
        language: The language of this program, as Markdown names it.
        library: The library that loads the export, as model hubs name it.
        notes: Further sentences on its use, in Markdown.
        quantises_with: Further modules that `write` needs for number formats other than the first.
        suffix: The suffix of an export that is one file, which is then the only file that `write`
            leaves in the directory; empty for a directory.
        fixed_search: The search of the foreign library, if an export cannot change it.
        expected: Returns the translations of lines that the library should find with its fixed
            search. It receives the bundle, the directory of the export and the lines.
    """

    name: str
    options: Mapping[str, Option]
    extra: str
    modules: tuple[str, ...]
    cells: Mapping[str, Cell]
    types: Mapping[str, Tolerance]
    write: Callable[[TextBundle, str, Path], None]
    write_search: Callable[[TextBundle, ForeignSearch, Path], None]
    load: Callable[[TextBundle, Path], Foreign]
    usage: Callable[[TextBundle, str], str]
    writes_with: tuple[str, ...] = ()
    quantises_with: tuple[str, ...] = ()
    suffix: str = ""
    fixed_search: ForeignSearch | None = None
    expected: Callable[[TextBundle, Path, Sequence[str]], list[str]] | None = None
    language: str = "python"
    library: str = ""
    notes: str = ""
