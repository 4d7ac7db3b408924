"""A SentencePiece tokenizer of crosshead as `tokenizer.json`, the format of Hugging Face.

The library `tokenizers` and transformers.js read this file. The escapes of reserved characters, the
space before a line and the spelling in bytes become normalisers and decoders, so that the ids are
the same for ordinary and for odd text. Three things differ from crosshead:

- The name of a control piece in a text, such as `</s>`, becomes that control piece.
- In unigram models, transformers.js knows no bytes: a character without a piece becomes unknown.
- `tokenizers` shows bytes that are no text as one U+FFFD each.

A language model of crosshead's own encodes line by line, and the end token stands for a line break.
So its file names this token by a line feed. A text is split at it, and it stands before every
prompt, as in crosshead's own generation.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from crosshead.addons.interop.base import json_bytes
from crosshead.text.imported import ImportedTokenizer, JsonTokenizer, tokenizers_library
from crosshead.text.pieces import CONTROL, NEW, load_pieces
from crosshead.text.subwords import ESCAPE, RESERVED, SPACE, SubwordTokenizer
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import EOS, PAD, UNK


def foreign_ids(tokenizer: Tokenizer) -> list[int | None]:
    """Return the exported id of each id of a tokenizer; None if it is not exported.

    A model of another toolkit gets its own ids back.
    """
    if isinstance(tokenizer, ImportedTokenizer | JsonTokenizer):
        return tokenizer.vocabulary.rows
    return list(range(tokenizer.vocab_size))


def vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the exported id of each piece, in the order of the ids."""
    rows = foreign_ids(tokenizer)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    known = sorted((row, piece) for row, piece in zip(rows, pieces, strict=True) if row is not None)
    return {piece: row for row, piece in known}


BYTE_NAME = "<(?=0x[0-9A-F]{2}>)"
"""A pattern of the beginning of a byte's name. `tokenizers` would read the name in a text as the
byte, so the text is split there."""


def tokenizer_json(tokenizer: SubwordTokenizer) -> bytes:
    """Return the content of `tokenizer.json`, which encodes sources and decodes targets."""
    found = subwords(tokenizer, tokenizers_library().decoders.Strip(" ", 1, 0))
    add_tokens(found, CONTROL, special=True)
    end = CONTROL[EOS]
    return with_template(found, ["$A", end], ["$A", "$B", end], (end, EOS))


def add_tokens(found: Any, pieces: Sequence[str], *, special: bool) -> None:
    """Add tokens that a text is split at."""
    token = tokenizers_library().AddedToken
    found.add_tokens([token(each, normalized=False, special=special) for each in pieces])


def with_template(found: Any, single: list[str], pair: list[str], token: tuple[str, int]) -> bytes:
    """Return a tokenizer as JSON that puts a token before or after texts."""
    processors = tokenizers_library().processors
    found.post_processor = processors.TemplateProcessing(single, pair, [token])
    return str(found.to_str(pretty=True)).encode() + b"\n"


def subwords(
    tokenizer: SubwordTokenizer, trim: Any, renamed: Mapping[str, str] | None = None
) -> Any:
    """Return a tokenizer of the library, without added tokens.

    `trim` is the step that leaves out the spaces around a decoded text, and `renamed` holds pieces
    with another name in the file.
    """
    library = tokenizers_library()
    decoders, steps = library.decoders, library.normalizers
    model, has_bytes = _model(tokenizer, renamed or {})
    found = library.Tokenizer(model)
    # The escape itself is the first reserved character, so no escape is escaped again.
    escaped = [(each, f"{ESCAPE}{n}") for n, each in enumerate(RESERVED)]
    found.normalizer = steps.Sequence(
        [
            *(steps.Replace(each, escape) for each, escape in escaped),
            steps.Prepend(SPACE),
            steps.Replace(" ", SPACE),
        ]
    )
    is_split = has_bytes and isinstance(model, library.models.Unigram)
    _split(found, tokenizer.special, at_bytes=is_split)
    # The escape itself comes last, so that no escaped text is restored twice.
    found.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            trim,
            *(decoders.Replace(escape, each) for each, escape in reversed(escaped)),
        ]
    )
    return found


def splitter(pattern: str, behaviour: str) -> Any:
    """Return a step that splits a text before its segmentation."""
    library = tokenizers_library()
    return library.pre_tokenizers.Split(library.Regex(pattern), behaviour)


def _split(found: Any, special: Sequence[str], *, at_bytes: bool) -> None:
    """Let a tokenizer split a text at special pieces and at the names of bytes."""
    steps = [splitter(any_of(special), "isolated")] if special else []
    if at_bytes:
        steps.append(splitter(BYTE_NAME, "merged_with_previous"))
    if steps:
        found.pre_tokenizer = tokenizers_library().pre_tokenizers.Sequence(steps)


def any_of(special: Sequence[str]) -> str:
    """Return a pattern of special pieces, the longest first."""
    longest_first = sorted(special, key=len, reverse=True)
    # `re.escape` also escapes characters such as `-`, which JavaScript refuses.
    return "|".join(re.sub(r"[\\^$.|?*+()\[\]{}/]", r"\\\g<0>", each) for each in longest_first)


def _model(tokenizer: SubwordTokenizer, renamed: Mapping[str, str]) -> tuple[Any, bool]:
    """Return the pieces with their scores or merges, and whether bytes are among them."""
    models = tokenizers_library().models
    processor, pieces = load_pieces(tokenizer.model, NEW)
    scores: dict[str, float] = {}
    has_bytes = False
    for index, piece in enumerate(pieces):
        if processor.is_byte(index):
            has_bytes = True
        elif not processor.is_control(index) and not processor.is_unknown(index):
            scores[piece] = processor.get_score(index)
    learned = {piece: score for piece, score in scores.items() if piece not in tokenizer.special}
    names = [renamed.get(piece, piece) for piece in pieces]
    if tokenizer.kind == "unigram":
        # The names of control pieces, of special ones and of bytes are never in a split text.
        scored = [(piece, learned.get(piece, 0.0)) for piece in names]
        return models.Unigram(scored, UNK, byte_fallback=has_bytes), has_bytes
    model = models.BPE(
        vocab={piece: index for index, piece in enumerate(names)},
        merges=_merges(learned),
        unk_token=names[UNK],
        fuse_unk=not has_bytes,
        byte_fallback=has_bytes,
        # A special piece, which the pre-tokenizer has split off, is built by no merges.
        ignore_merges=bool(tokenizer.special),
    )
    return model, has_bytes


def _merges(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return the merges of a BPE model: each way to build a piece from two, best pieces first.

    SentencePiece merges two neighbours if their text is a piece, whatever the pieces are.
    """
    found: list[tuple[str, str]] = []
    for piece in sorted(scores, key=lambda each: -scores[each]):
        halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        found += [each for each in halves if scores.keys() >= set(each)]
    return found


LINE_BREAK = "\n"
"""The piece of the end token."""

_LINE_BEGINS = "(?<=^|\n) "
"""A pattern of the space that encoding puts before a line."""


def tokenizer_files(tokenizer: Tokenizer, most: int) -> dict[str, bytes]:
    """Return the files of a tokenizer that transformers loads, by name."""
    names = {"pad_token": PAD, "unk_token": UNK}
    if tokenizer.spans_lines:
        names |= {"bos_token": EOS, "eos_token": EOS}
    rows = foreign_ids(tokenizer)
    pieces = {
        name: tokenizer.pieces([index])[0]
        for name, index in names.items()
        if rows[index] is not None
    }
    return {
        "tokenizer.json": tokenizer.model
        if isinstance(tokenizer, JsonTokenizer)
        else _own(tokenizer),
        "tokenizer_config.json": tokenizer_settings(most, pieces),
    }


def tokenizer_settings(most: int, names: Mapping[str, str]) -> bytes:
    """Return the content of `tokenizer_config.json`, with the names of the control tokens.

    The class is a general one: those of Marian look for SentencePiece's own files.
    """
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": most,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    return json_bytes({**settings, **names})


def _own(tokenizer: Tokenizer) -> bytes:
    """Return the content of `tokenizer.json` for a tokenizer of crosshead's own."""
    assert isinstance(tokenizer, SubwordTokenizer)
    library = tokenizers_library()
    trim = library.decoders.Replace(library.Regex(_LINE_BEGINS), "")
    found = subwords(tokenizer, trim, {CONTROL[EOS]: LINE_BREAK})
    add_tokens(found, [LINE_BREAK], special=False)
    add_tokens(found, [name for n, name in enumerate(CONTROL) if n != EOS], special=True)
    return with_template(found, [LINE_BREAK, "$A"], [LINE_BREAK, "$A", "$B"], (LINE_BREAK, EOS))
