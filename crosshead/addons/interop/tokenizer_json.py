"""A SentencePiece tokenizer of crosshead as `tokenizer.json`, the format of Hugging Face.

The library `tokenizers` and transformers.js read this file. The escapes of reserved characters, the
space before a line and the spelling in bytes become normalisers and decoders, so that the ids are
the same for ordinary and for odd text. Three things differ:

- The name of a control piece in a text, such as `</s>`, becomes that control piece.
- In unigram models, transformers.js knows no bytes: a character without a piece becomes unknown.
- `tokenizers` shows bytes that are no text as one U+FFFD each.

A piece that no source has, such as a piece of a target vocabulary of its own, begins with a space.
It is never found in a text, because every space of a text becomes U+2581. Decoding takes the space
away.
"""

import base64
import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from crosshead.addons.interop.joined_vocabulary import MARK, JoinedVocabulary
from crosshead.text.imported import ImportedTokenizer
from crosshead.text.pieces import CONTROL, NEW, load_pieces
from crosshead.text.subwords import ESCAPE, RESERVED, SPACE, SubwordTokenizer
from crosshead.vocabulary import EOS, UNK

BYTE_NAME = "<(?=0x[0-9A-F]{2}>)"
"""A pattern of the beginning of a byte's name. `tokenizers` would read the name in a text as the
byte, so the text is split there."""

SentencePieces = SubwordTokenizer | ImportedTokenizer
"""A tokenizer with a SentencePiece model."""

_MOST_SPACES = 1000
"""The most spaces that are left out at each end of a translation of an imported model."""


def tokenizer_json(tokenizer: SentencePieces, joined: JoinedVocabulary) -> dict[str, Any]:
    """Return the content of `tokenizer.json`, which encodes sources and decodes targets."""
    names, rows = joined.pieces, joined.source
    control = [row for row in rows[: len(CONTROL)] if row is not None]
    end = rows[EOS]
    assert end is not None
    is_own = isinstance(tokenizer, SubwordTokenizer)
    tags = [] if is_own else [names.index(each) for each in tokenizer.special]
    model = _model(tokenizer, joined)
    splitters = []
    if is_own and tokenizer.special:
        splitters.append(splitter(any_of(tokenizer.special), "Isolated"))
    if model["type"] == "Unigram" and model["byte_fallback"]:
        splitters.append(splitter(BYTE_NAME, "MergedWithPrevious"))
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            added(index, names[index], special=index in control)
            for index in sorted([*control, *tags])
        ],
        "normalizer": {"type": "Sequence", "normalizers": _normalizers(tokenizer)},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splitters} if splitters else None,
        "model": model,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, _special(names[end])],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                _special(names[end]),
            ],
            "special_tokens": {
                names[end]: {"id": names[end], "ids": [end], "tokens": [names[end]]}
            },
        },
        "decoder": {"type": "Sequence", "decoders": _decoders(is_own)},
    }


def added(index: int, piece: str, *, special: bool) -> dict[str, Any]:
    """Return a token that a text is split at."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": index, "content": piece, **flags, "special": special}


def _special(piece: str) -> dict[str, Any]:
    return {"SpecialToken": {"id": piece, "type_id": 0}}


def replaced(old: str, new: str, kind: str = "String") -> dict[str, Any]:
    """Return a step that replaces a part of a text."""
    return {"type": "Replace", "pattern": {kind: old}, "content": new}


def _normalizers(tokenizer: SentencePieces) -> list[dict[str, Any]]:
    """Return the changes of a text before it is split: escapes, or those of SentencePiece."""
    before: list[dict[str, Any]]
    if isinstance(tokenizer, SubwordTokenizer):
        # The escape itself is the first reserved character, so no escape is escaped again.
        before = [replaced(each, f"{ESCAPE}{n}") for n, each in enumerate(RESERVED)]
        prepended = True
    else:
        rules = _proto(tokenizer.model).normalizer_spec
        prepended = rules.add_dummy_prefix
        before = []
        if rules.precompiled_charsmap:
            charsmap = base64.b64encode(rules.precompiled_charsmap).decode()
            before.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
        if rules.remove_extra_whitespaces:
            before.append({"type": "Strip", "strip_left": True, "strip_right": True})
            before.append(replaced(" {2,}", " ", "Regex"))
    space = [{"type": "Prepend", "prepend": SPACE}] if prepended else []
    return [*before, *space, replaced(" ", SPACE)]


def _decoders(is_own: bool) -> list[dict[str, Any]]:
    """Return the steps from pieces to a text."""
    outer = (1, 0) if is_own else (_MOST_SPACES, _MOST_SPACES)
    # The escape itself comes last, so that no escaped text is restored twice.
    escapes = [replaced(f"{ESCAPE}{n}", each) for n, each in enumerate(RESERVED)][::-1]
    return [
        replaced(f"^{MARK}+", "", "Regex"),
        replaced(SPACE, " "),
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": outer[0], "stop": outer[1]},
        *(escapes if is_own else []),
    ]


def splitter(pattern: str, behaviour: str) -> dict[str, Any]:
    """Return a step that splits a text before its segmentation."""
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": behaviour,
        "invert": False,
    }


def any_of(special: Sequence[str]) -> str:
    """Return a pattern of special pieces, the longest first."""
    longest_first = sorted(special, key=len, reverse=True)
    # `re.escape` also escapes characters such as `-`, which JavaScript refuses.
    return "|".join(re.sub(r"[\\^$.|?*+()\[\]{}/]", r"\\\g<0>", each) for each in longest_first)


def _model(tokenizer: SentencePieces, joined: JoinedVocabulary) -> dict[str, Any]:
    """Return the pieces with their scores, or with the merges that build them."""
    processor, pieces = load_pieces(tokenizer.model, NEW)
    scores: dict[str, float] = {}
    byte_names = set()
    for index, piece in enumerate(pieces):
        if processor.is_byte(index):
            byte_names.add(piece)
        elif not processor.is_control(index) and not processor.is_unknown(index):
            scores[piece] = processor.get_score(index)
    learned = {piece: score for piece, score in scores.items() if piece not in tokenizer.special}
    unknown = joined.source[UNK]
    control = {joined.pieces[row] for row in joined.source[: len(CONTROL)] if row is not None}
    found = {*control, *tokenizer.special, *byte_names, *learned}
    # Marian finds a character of the vocabulary that the SentencePiece model lacks.
    names = [
        piece if piece in found or len(piece) == 1 or piece.startswith(MARK) else f"{MARK}{piece}"
        for piece in joined.pieces
    ]
    if _is_bpe(tokenizer):
        return {
            "type": "BPE",
            "dropout": None,
            "unk_token": None if unknown is None else names[unknown],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": not byte_names,
            "byte_fallback": bool(byte_names),
            # A special piece, which the pre-tokenizer has split off, is built by no merges.
            "ignore_merges": bool(tokenizer.special),
            "vocab": {piece: index for index, piece in enumerate(names)},
            "merges": _merges(learned),
        }
    return {
        "type": "Unigram",
        "unk_id": unknown,
        "byte_fallback": bool(byte_names),
        # The names of control pieces, of special ones and of bytes are never in a split text.
        "vocab": [[piece, learned.get(piece, 0.0)] for piece in names],
    }


def _is_bpe(tokenizer: SentencePieces) -> bool:
    if isinstance(tokenizer, SubwordTokenizer):
        return tokenizer.kind == "bpe"
    trainer = _proto(tokenizer.model).trainer_spec
    return bool(trainer.model_type == trainer.BPE)


def _merges(scores: Mapping[str, float]) -> list[list[str]]:
    """Return the merges of a BPE model: each way to build a piece from two, best pieces first.

    SentencePiece merges two neighbours if their text is a piece, whatever the pieces are.
    """
    found = []
    for piece in sorted(scores, key=lambda each: -scores[each]):
        halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        found += [list(each) for each in halves if scores.keys() >= set(each)]
    return found


def _proto(model: bytes) -> Any:
    """Return a SentencePiece model as a message of its own format."""
    messages: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    return messages.ModelProto.FromString(model)
