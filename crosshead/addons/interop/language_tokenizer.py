"""The tokenizer of a language model as `tokenizer.json`, the format of Hugging Face.

crosshead's own tokenizers encode line by line, and the end token stands for a line break. So the
file names this token by a line feed. A text is split at it, and it stands before every prompt, as
in crosshead's own generation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from crosshead.addons.interop.base import json_bytes
from crosshead.addons.interop.joined_vocabulary import joined_vocabulary
from crosshead.addons.interop.rows import foreign_ids
from crosshead.addons.interop.tokenizer_json import (
    BYTE_NAME,
    added,
    any_of,
    replaced,
    splitter,
    tokenizer_json,
)
from crosshead.text.json_tokenizer import JsonTokenizer
from crosshead.text.pieces import CONTROL
from crosshead.text.subwords import SubwordTokenizer
from crosshead.text.symbols import ByteTokenizer, CharacterTokenizer
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import EOS, PAD, UNK

LINE_BREAK = "\n"
"""The piece of the end token."""

_LINE_BEGINS = "(?<=^|\n) "
"""A pattern of the space that encoding puts before a line."""


def tokenizer_files(tokenizer: Tokenizer, most: int) -> dict[str, bytes]:
    """Return the files of a tokenizer that transformers loads, by name."""
    own = {"pad_token": PAD, "unk_token": UNK}
    names = {"bos_token": EOS, "eos_token": EOS, **own} if tokenizer.spans_lines else own
    rows = foreign_ids(tokenizer)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": most,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        **{
            name: tokenizer.pieces([index])[0]
            for name, index in names.items()
            if rows[index] is not None
        },
    }
    return {
        "tokenizer.json": tokenizer.model
        if isinstance(tokenizer, JsonTokenizer)
        else json_bytes(_own(tokenizer)),
        "tokenizer_config.json": json_bytes(settings),
    }


def _own(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the content of `tokenizer.json` for a tokenizer of crosshead's own."""
    if isinstance(tokenizer, SubwordTokenizer):
        found = tokenizer_json(tokenizer, joined_vocabulary(tokenizer, tokenizer))
        vocabulary = found["model"]["vocab"]
        decoders = [
            replaced(_LINE_BEGINS, "", "Regex") if each["type"] == "Strip" else each
            for each in found["decoder"]["decoders"]
        ]
        found["decoder"]["decoders"] = decoders
    elif isinstance(tokenizer, CharacterTokenizer):
        vocabulary = _ids(tokenizer.pieces(range(tokenizer.vocab_size)))
        found = _of_characters(tokenizer, vocabulary)
    else:
        assert isinstance(tokenizer, ByteTokenizer)
        values = [f"<0x{value:02X}>" for value in range(256)]
        vocabulary = _ids([*CONTROL, *values, *tokenizer.special])
        found = _of_bytes(tokenizer, vocabulary)
    found["model"]["vocab"] = _with_line_break(vocabulary)
    found["added_tokens"] = [
        added(index, LINE_BREAK if index == EOS else name, special=index != EOS)
        for index, name in enumerate(CONTROL)
    ]
    found["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [_end(), {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [
            _end(),
            {"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 0}},
        ],
        "special_tokens": {LINE_BREAK: {"id": LINE_BREAK, "ids": [EOS], "tokens": [LINE_BREAK]}},
    }
    return found


def _of_characters(tokenizer: CharacterTokenizer, vocabulary: Mapping[str, int]) -> dict[str, Any]:
    pattern = "|".join([*([any_of(tokenizer.special)] if tokenizer.special else []), r"[\s\S]"])
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": CONTROL[UNK]}
    return _json(model, [splitter(pattern, "Isolated")], [{"type": "Fuse"}])


def _of_bytes(tokenizer: ByteTokenizer, vocabulary: Mapping[str, int]) -> dict[str, Any]:
    model: dict[str, Any] = {
        "type": "BPE",
        "dropout": None,
        "unk_token": CONTROL[UNK],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": True,
        # A special piece, which the pre-tokenizer has split off, is built by no merges.
        "ignore_merges": bool(tokenizer.special),
        "vocab": vocabulary,
        "merges": [],
    }
    splitters = []
    if tokenizer.special:
        splitters = [
            splitter(any_of(tokenizer.special), "Isolated"),
            splitter(BYTE_NAME, "MergedWithPrevious"),
        ]
    return _json(model, splitters, [{"type": "ByteFallback"}, {"type": "Fuse"}])


def _json(
    model: dict[str, Any], splitters: list[dict[str, Any]], decoders: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splitters} if splitters else None,
        "model": model,
        "decoder": {"type": "Sequence", "decoders": decoders},
    }


def _ids(pieces: Sequence[str]) -> dict[str, int]:
    return {piece: index for index, piece in enumerate(pieces)}


def _with_line_break(vocabulary: Any) -> Any:
    """Return a vocabulary in which the end token is a line feed. No other piece is one."""
    pairs = vocabulary.items() if isinstance(vocabulary, Mapping) else vocabulary
    changed = [(LINE_BREAK if piece == CONTROL[EOS] else piece, value) for piece, value in pairs]
    return dict(changed) if isinstance(vocabulary, Mapping) else [list(each) for each in changed]


def _end() -> dict[str, Any]:
    return {"SpecialToken": {"id": LINE_BREAK, "type_id": 0}}
