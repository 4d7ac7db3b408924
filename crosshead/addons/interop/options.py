"""The options of a model that a foreign format may be unable to express.

The tests export a small model of each. docs/export.md lists those that a format lacks or rewrites.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.models.attention_kinds import POSITIONS, SCORES
from crosshead.models.registry import CONFIGS
from crosshead.text.imported import ImportedTokenizer, JsonTokenizer
from crosshead.text.tokenizers import TokenizerConfig
from crosshead.vocabulary import PAD


@dataclass(frozen=True)
class Option:
    """An option of a model: a key of its configuration with a value, or several of them together.

    Attributes:
        name: The name in messages and in the table, such as `model.positions = alibi`.
        holds: Returns whether a bundle has the option.
        model: Settings of a small model that has it, for the tests.
        tokenizer: Settings of its tokenizer, for the tests.
    """

    name: str
    holds: Callable[[Bundle], bool]
    model: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Mapping[str, Any] = field(default_factory=dict)


def _has(key: str, value: object, **others: object) -> Option:
    """Return the option that a key of the model has a value."""
    return Option(
        f"model.{key} = {str(value).lower()}",
        lambda bundle: getattr(bundle.config.model, key, None) == value,
        {key: value, **others},
    )


def _architecture(name: str) -> Option:
    return Option(
        f"model.architecture = {name}",
        lambda bundle: bundle.config.model.architecture == name,
        {"architecture": name},
    )


def _tokenizer(kind: str) -> Option:
    def holds(bundle: Bundle) -> bool:
        return isinstance(bundle, TextBundle) and kind in (
            bundle.source_tokenizer.kind,
            bundle.target_tokenizer.kind,
        )

    return Option(f"tokenizer.kind = {kind}", holds, tokenizer={"kind": kind})


def _pre_norm_with_separate_matrices(bundle: Bundle) -> bool:
    model = bundle.config.model
    return getattr(model, "norm", None) == "pre" and getattr(model, "tie", None) != "three-way"


def _few_heads(bundle: Bundle) -> bool:
    model = bundle.config.model
    return getattr(model, "kv_heads", None) not in (None, getattr(model, "heads", None))


def _other_width(bundle: Bundle) -> bool:
    """Return whether all heads together are wider or narrower than the model."""
    model = bundle.config.model
    width = getattr(model, "key_width", None)
    return width is not None and width * model.heads != model.d_model  # type: ignore[attr-defined]


def _unequal_widths(bundle: Bundle) -> bool:
    model = bundle.config.model
    return getattr(model, "key_width", None) != getattr(model, "value_width", None)


def _separate(bundle: Bundle) -> bool:
    return isinstance(bundle, TextBundle) and not bundle.config.joint_tokenizer


def _tagged(bundle: Bundle) -> bool:
    if not isinstance(bundle, TextBundle):
        return False
    source = bundle.source_tokenizer
    is_foreign = isinstance(source, ImportedTokenizer) and bool(source.special)
    return is_foreign or bool(bundle.config.target_languages)


def _without_control(bundle: Bundle) -> bool:
    """Return whether an imported vocabulary lacks a piece that other libraries begin with."""
    if not isinstance(bundle, TextBundle):
        return False
    used = {PAD, bundle.specials.start}
    return any(
        tokenizer.vocabulary.control[index] is None
        for tokenizer in (bundle.source_tokenizer, bundle.target_tokenizer)
        if isinstance(tokenizer, ImportedTokenizer)
        for index in used
    )


def _without_codes(bundle: Bundle) -> bool:
    if not isinstance(bundle, TextBundle) or bundle.config.model.vocabularies == 1:
        return False
    config = bundle.config
    return None in (config.source_language, config.target_language) and not config.target_languages


def _has_special(bundle: Bundle) -> bool:
    return isinstance(bundle, TextBundle) and bool(bundle.target_tokenizer.special)


def _lacks_pieces(bundle: Bundle) -> bool:
    return isinstance(bundle, TextBundle) and any(
        isinstance(each, ImportedTokenizer) and bool(each.missing_pieces())
        for each in (bundle.source_tokenizer, bundle.target_tokenizer)
    )


def _has_line_feed(bundle: Bundle) -> bool:
    """Return whether a piece of a tokenizer of lines is a line feed."""
    if not isinstance(bundle, TextBundle) or bundle.target_tokenizer.spans_lines:
        return False
    tokenizer = bundle.target_tokenizer
    return "\n" in tokenizer.pieces(range(tokenizer.vocab_size))


def _samples(bundle: Bundle) -> bool:
    return isinstance(bundle, TextBundle) and bundle.config.decode.sample


def _registered(key: str, shipped: frozenset[str]) -> Option:
    """Return the option that a score or positions are not among the package's own."""
    return Option(
        f"model.{key} = (registered by a program)",
        lambda bundle: getattr(bundle.config.model, key, None) not in {None, *shipped},
    )


_PATTERNS: dict[str, dict[str, int]] = {
    "window": {"radius": 2},
    "dilated": {"radius": 2, "dilation": 2},
    "strided": {"stride": 3},
    "fixed": {"stride": 3, "columns": 1},
}

_POSITIONS = frozenset(POSITIONS)
_SCORES = frozenset(SCORES)

_STACK = (
    *(_has("norm", value) for value in ("post", "pre")),
    Option(
        "model.norm_eps other than 1e-5",
        lambda bundle: getattr(bundle.config.model, "norm_eps", 1e-5) != 1e-5,
        {"norm_eps": 1e-3},
    ),
    *(_has("activation", value) for value in ("relu", "gelu", "gelu-tanh", "swish")),
    *(_has("score", value) for value in SCORES),
    _registered("score", _SCORES),
    *(_has("positions", value) for value in POSITIONS),
    _registered("positions", _POSITIONS),
    *(_has("pattern", value, **_PATTERNS[value]) for value in _PATTERNS),
    Option("model.kv_heads below model.heads", _few_heads, {"kv_heads": 2}),
    Option("model.d_key other than d_model / heads", _other_width, {"d_key": 6, "d_value": 6}),
    Option("model.d_key other than model.d_value", _unequal_widths, {"d_key": 6, "d_value": 4}),
    Option(
        "an odd model.d_model",
        lambda bundle: bundle.config.model.d_model % 2 == 1,
        {"d_model": 15, "heads": 3},
    ),
)
"""The options of every stack of attention layers."""

_KINDS: tuple[str, ...] = get_args(TokenizerConfig.model_fields["kind"].annotation)

_ALL = (
    *(_architecture(name) for name in CONFIGS),
    *_STACK,
    *(_has("tie", value) for value in ("three-way", "two-way", "none")),
    Option(
        "model.norm = pre with model.tie other than three-way",
        _pre_norm_with_separate_matrices,
        {"norm": "pre", "tie": "two-way"},
    ),
    _has("output_bias", True),
    *(_has("start", value) for value in ("bos", "pad")),
    *(_tokenizer(kind) for kind in _KINDS if kind != JsonTokenizer.kind),
    Option(
        "an imported vocabulary without padding or start",
        _without_control,
        {"start": "pad"},
        {"kind": "sentencepiece", "padding": False},
    ),
    Option(
        "an imported vocabulary without pieces of its SentencePiece model",
        _lacks_pieces,
        {},
        {"kind": "sentencepiece", "missing": True},
    ),
    Option("tokenizer.joint = false", _separate, {"tie": "none"}, {"joint": False}),
    Option("several target languages", _tagged, {}, {"special": ["<2de>", "<2fr>"]}),
    Option("unknown languages", _without_codes),
    Option("decode.sample = true", _samples),
)

OPTIONS: dict[str, Option] = {option.name: option for option in _ALL}
"""The options of translation models by name."""

_OF_LANGUAGE = (
    _architecture("language"),
    *_STACK,
    *(_has("tie", value) for value in (False, True)),
    *(_has("scale_embeddings", value) for value in (True, False)),
    _has("output_bias", True),
    Option(
        "model.absent",
        lambda bundle: bool(getattr(bundle.config.model, "absent", ())),
        {"absent": [1]},
    ),
    *(_tokenizer(kind) for kind in _KINDS if kind != ImportedTokenizer.kind),
    Option(
        "a line feed in the vocabulary",
        _has_line_feed,
        {},
        {"kind": "characters", "line_feed": True},
    ),
    Option("tokenizer.special", _has_special, {}, {"special": ["<2de>", "<|x|>"]}),
    Option("decode.sample = true", _samples),
)

LANGUAGE_OPTIONS: dict[str, Option] = {option.name: option for option in _OF_LANGUAGE}
"""The options of language models by name."""
