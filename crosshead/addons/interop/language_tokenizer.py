"""The tokenizer of a language model as `tokenizer.json`, the format of Hugging Face.

crosshead's own tokenizers encode line by line, and the end token stands for a line break. So the
file names this token by a line feed. A text is split at it, and it stands before every prompt, as
in crosshead's own generation.
"""

from collections.abc import Sequence
from typing import Any

from crosshead.addons.interop.base import json_bytes
from crosshead.addons.interop.joined_vocabulary import joined_vocabulary
from crosshead.addons.interop.rows import foreign_ids
from crosshead.addons.interop.tokenizer_json import (
    BYTE_NAME,
    add_tokens,
    any_of,
    splitter,
    subwords,
    with_template,
)
from crosshead.text.imported import JsonTokenizer, tokenizers_library
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
        else _own(tokenizer),
        "tokenizer_config.json": json_bytes(settings),
    }


def _own(tokenizer: Tokenizer) -> bytes:
    """Return the content of `tokenizer.json` for a tokenizer of crosshead's own."""
    library = tokenizers_library()
    if isinstance(tokenizer, SubwordTokenizer):
        trim = library.decoders.Replace(library.Regex(_LINE_BEGINS), "")
        joined = joined_vocabulary(tokenizer, tokenizer)
        found = subwords(tokenizer, joined, trim, {CONTROL[EOS]: LINE_BREAK})
    elif isinstance(tokenizer, CharacterTokenizer):
        found = _of_characters(tokenizer)
    else:
        assert isinstance(tokenizer, ByteTokenizer)
        found = _of_bytes(tokenizer)
    add_tokens(found, [LINE_BREAK], special=False)
    add_tokens(found, [name for n, name in enumerate(CONTROL) if n != EOS], special=True)
    return with_template(found, [LINE_BREAK, "$A"], [LINE_BREAK, "$A", "$B"], (LINE_BREAK, EOS))


def _of_characters(tokenizer: CharacterTokenizer) -> Any:
    library = tokenizers_library()
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    found = library.Tokenizer(library.models.WordLevel(_ids(pieces), CONTROL[UNK]))
    pattern = "|".join([*([any_of(tokenizer.special)] if tokenizer.special else []), r"[\s\S]"])
    found.pre_tokenizer = splitter(pattern, "isolated")
    found.decoder = library.decoders.Fuse()
    return found


def _of_bytes(tokenizer: ByteTokenizer) -> Any:
    library = tokenizers_library()
    values = [f"<0x{value:02X}>" for value in range(256)]
    model = library.models.BPE(
        vocab=_ids([*CONTROL, *values, *tokenizer.special]),
        merges=[],
        unk_token=CONTROL[UNK],
        byte_fallback=True,
        # A special piece, which the pre-tokenizer has split off, is built by no merges.
        ignore_merges=bool(tokenizer.special),
    )
    found = library.Tokenizer(model)
    if tokenizer.special:
        found.pre_tokenizer = library.pre_tokenizers.Sequence(
            [
                splitter(any_of(tokenizer.special), "isolated"),
                splitter(BYTE_NAME, "merged_with_previous"),
            ]
        )
    decoders = library.decoders
    found.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return found


def _ids(pieces: Sequence[str]) -> dict[str, int]:
    """Return the id of each piece. The end token is a line feed, which no other piece is."""
    return {LINE_BREAK if index == EOS else piece: index for index, piece in enumerate(pieces)}
