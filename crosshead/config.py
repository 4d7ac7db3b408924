"""The base of all configurations: frozen, validated, written as TOML or JSON.

A configuration class stands beside the class it configures (`TransformerConfig` beside
`Transformer`). This module knows none of them. An unknown key is an error that names the nearest
known key.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError, ValidationInfo
from pydantic.functional_validators import field_validator
from pydantic_core import PydanticKnownError
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function

from crosshead.errors import ConfigError, printable

# The largest numbers that configurations accept, far above any real model. Without them a wrong or
# hostile number would cause an overflow or take hours.

MOST_LAYERS = 200
"""Layers of a stack. Checkpoints of 400 layers still fit LARGEST_HEADER."""

MOST_HEADS = 1_024
"""Heads of an attention."""

MOST_WIDTH = 65_536
"""The width of a vector: d_model, d_key, d_value."""

MOST_INNER = 262_144
"""The inner width of a feed-forward network, d_ff."""

MOST_POSITIONS = 500_000
"""Positions of a learned table, a window, a segment or a memory."""

MOST_KERNEL = 1_001
"""The positions that a convolution sees at once."""

MOST_PATCH = 1_024
"""The height and width of a patch of an image, in pixels."""

MOST_TOKENS = 100_000_000
"""Tokens of one source."""

MOST_VOCABULARY = 10_000_000
"""Pieces of a vocabulary."""

C = TypeVar("C", bound="Config")

MOST = 2**31 - 1
"""The largest count that a setting takes."""

LARGEST = 2**63 - 1
"""The largest integer that PyTorch and NumPy compute with."""

_SHOWN = 100
"""The largest number of characters of a value in a message."""

_EXPECTED = {
    **dict.fromkeys(("int_type", "int_parsing"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "none_required": "null",
    "model_type": "a section",
    "literal_error": "{expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "string_pattern_mismatch": "text that matches {pattern}",
}
"""Expected values, by pydantic's type of error."""


@dataclass(frozen=True)
class OneOf:
    """An annotation of text that has to be a key of a dictionary, which may grow."""

    names: Mapping[str, object]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return no_info_after_validator_function(self._check, handler(source))

    def _check(self, value: str) -> str:
        if value not in self.names:
            *most, last = map(repr, self.names)
            raise PydanticKnownError("literal_error", {"expected": f"{', '.join(most)} or {last}"})
        return value


def _texts(value: Any) -> list[str]:
    """Return the texts in the value of a field, in lists and keys too."""
    if isinstance(value, list | tuple | dict):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


class Config(BaseModel):
    """A frozen, strictly typed set of named values. Unknown keys, NaN and infinity are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )

    @field_validator("*")
    @classmethod
    def _has_no_control_character(cls, value: Any) -> Any:
        # Tabs and line ends stand in names of columns, as spreadsheets write them.
        for text in _texts(value):
            if printable(text, keep="\t\n\r\u2028\u2029") != text:
                raise ValueError(f"expected text without control characters, found {shown(text)}")
        return value

    @classmethod
    def variant(cls, values: Any) -> "type[Config]":
        """Return the configuration class that `values` belong to, for messages."""
        return cls


def validate(
    config_class: type[C],
    values: dict[str, Any],
    where: str = "",
    typed: Mapping[str, str] | None = None,
) -> C:
    """Build a configuration from plain values."""
    try:
        return config_class.model_validate(values, context=typed)
    except ValidationError as error:
        prefix = f"{where}: " if where else ""
        raise ConfigError(prefix + _explain(config_class, error, values, typed or {})) from None


def called(key: str, info: ValidationInfo) -> str:
    """Return the name of a key for a validator's message: the flag that was typed, or `key`."""
    return str((info.context or {}).get(key, key))


_ALSO_CALLED = {
    "lr": ["learning_rate"],
    "epochs": ["max_epochs"],
    "steps": ["max_updates"],
    "max_steps": ["max_updates"],
    "batch_size": ["batch_tokens"],
    "hidden_size": ["d_model"],
    "num_layers": ["encoder_layers", "decoder_layers", "layers"],
    "fp16": ["precision"],
    "gpu": ["device"],
    "bpe": ["tokenizer.kind"],
    "src": ["source"],
    "tgt": ["target"],
}
"""The keys that people mean by names of other toolkits whose spelling is too far from the key's."""

_LISTED = 10
"""The largest number of keys that a message lists."""


def usual_names(word: str) -> list[str]:
    """Return the keys that `word` means in other toolkits."""
    return _ALSO_CALLED.get(word.lower().replace("-", "_"), [])


def nearest(word: str, known: list[str]) -> str:
    """Return a hint with the known word nearest to `word`, or with all known words.

    Capital letters do not count.
    """
    spelled = {each.lower(): each for each in known}
    close = difflib.get_close_matches(word.lower(), spelled, n=1, cutoff=0.5)
    return _did_you_mean([spelled[each] for each in close]) or f"known: {', '.join(sorted(known))}"


def nearest_key(key: str, known: Sequence[str], elsewhere: Sequence[str], section: str = "") -> str:
    """Return a hint for an unknown key: the keys that it may mean, or where the keys are listed."""
    found = [each for each in elsewhere if each.endswith(f".{key}")]
    for name in usual_names(key) if not found else ():
        same = [each for each in elsewhere if f".{each}".endswith(f".{name}")]
        found += [name] if name in known else same
    if hint := _did_you_mean(found or _alike(key, known)):
        return hint
    if 0 < len(known) <= _LISTED:
        return f"known: {', '.join(sorted(known))}"
    return f"`{' '.join(['crosshead recipe --explain', section]).rstrip()}` lists the keys"


def _alike(key: str, known: Sequence[str]) -> list[str]:
    """Return the keys that are spelled like `key`, or that share whole words with it."""
    if close := difflib.get_close_matches(key, known, n=1, cutoff=0.8):
        return close
    within = [
        each
        for each in known
        if (len(key) > 2 and f"_{each}".find(f"_{key}") >= 0) or f"_{each}_" in f"_{key}_"
    ]
    if 0 < len(within) <= 3:
        return within
    return difflib.get_close_matches(key, known, n=1, cutoff=0.6)


def _did_you_mean(words: Sequence[str]) -> str:
    return f"did you mean {' or '.join(map(repr, words))}?" if words else ""


def _explain(
    config_class: type[Config], error: ValidationError, values: Any, typed: Mapping[str, str]
) -> str:
    """Return a one-line message for the first of pydantic's errors."""
    first = error.errors(include_url=False)[0]
    location, fields = _located(config_class, first["loc"], values)
    key = ".".join(location)
    if first["type"] == "extra_forbidden":
        hint = nearest_key(
            location[-1],
            fields,
            [] if len(location) == 1 else _keys_of_sections(config_class, values),
            location[0] if len(location) == 2 else "",
        )
        return f"unknown key {key!r}; {hint}"
    name, complaint = typed.get(key, key), _complaint(first)
    says_where = not name or complaint.startswith((f"{name}.", *typed.values()))
    return complaint if says_where else f"{name}: {complaint}"


def _complaint(error: Any) -> str:
    """Return the error of a value, without the name of its key."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "missing; there is no default, so give a value"
    if kind == "value_error":
        return str(context["error"])
    found = shown(error["input"])
    if kind in _EXPECTED:
        bounds = {key: shown_number(value) for key, value in context.items()}
        return f"expected {_EXPECTED[kind].format(**bounds)}, found {found}"
    return f"{error['msg']}, found {found}"


def shown(value: Any) -> str:
    """Return a value as a message shows it. A long value is cut in the middle."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of thousands of digits
        return f"a number of {value.bit_length():,} bits" if isinstance(value, int) else "a number"
    if len(text) <= _SHOWN:
        return text
    half = _SHOWN // 2
    return f"{text[:half]}...{text[-half:]} ({len(text):,} characters)"


def shown_number(bound: Any) -> Any:
    """Return a bound in readable form: 1 instead of 1.0, 1,000 instead of 1000, 1e30."""
    if isinstance(bound, float) and abs(bound) >= 1e15:
        return f"{bound:g}".replace("e+", "e")
    if isinstance(bound, float) and bound.is_integer():
        bound = int(bound)
    return f"{bound:,}" if isinstance(bound, int | float) else bound


def _located(
    config_class: type[Config], path: tuple[Any, ...], values: Any
) -> tuple[list[str], list[str]]:
    """Return the path of keys to a wrong value, and the fields of its section."""
    current: Any = config_class
    keys = [part for part in path if isinstance(part, str)]
    for name in keys[:-1]:
        field = getattr(current, "model_fields", {}).get(name)
        values = values.get(name) if isinstance(values, dict) else None
        if field is not None:
            current = field.annotation
            current = current.variant(values) if hasattr(current, "variant") else current
    return keys, sorted(getattr(current, "model_fields", {}))


def _keys_of_sections(config_class: type[Config], values: Any) -> list[str]:
    """Return the keys of all sections, such as `model.heads`."""
    found = []
    for name, field in config_class.model_fields.items():
        section: Any = field.annotation
        if hasattr(section, "variant"):
            section = section.variant(values.get(name))
        found += [f"{name}.{key}" for key in getattr(section, "model_fields", {})]
    return found
