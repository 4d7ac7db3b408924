"""The tokenizer files beside a model of CTranslate2, read as programs without crosshead read them.

`PlainTokenizer` does what the programs do whose text `program` returns, so that the verification
covers them.
"""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.bundle.text_bundle import TextBundle
from crosshead.text.imported import ImportedTokenizer, JsonTokenizer
from crosshead.text.parallel.languages import tag_of
from crosshead.text.pieces import load_pieces
from crosshead.text.symbols import ByteTokenizer, CharacterTokenizer, WordTokenizer
from crosshead.text.tokenizers import JOINT, SIDES

_SIMPLE = (WordTokenizer.kind, CharacterTokenizer.kind, ByteTokenizer.kind)


class PlainTokenizer:
    """A tokenizer between texts and pieces, from the files of an export."""

    def __init__(self, directory: Path, stem: str) -> None:
        self._settings = json.loads((directory / f"{stem}.json").read_text())
        self._kind: str = self._settings["kind"]
        model = directory / f"{stem}.model"
        self._model: Any = None
        if self._kind == JsonTokenizer.kind:
            self._model = importlib.import_module("tokenizers").Tokenizer.from_file(str(model))
        elif self._kind not in _SIMPLE:
            self._model, _ = load_pieces(model.read_bytes(), model)

    def encode(self, text: str) -> list[str]:
        """Return the pieces of a text. A tag of a target language before it is a piece."""
        if self._kind == WordTokenizer.kind:
            return text.split(" ") if text else []
        tag = self._tag(text)
        rest = text.removeprefix(tag)
        if self._kind == CharacterTokenizer.kind:
            pieces = list(rest)
        elif self._kind == ByteTokenizer.kind:
            pieces = [
                chr(each) if 0x21 <= each <= 0x7E else f"<0x{each:02X}>" for each in rest.encode()
            ]
        elif self._kind == JsonTokenizer.kind:
            pieces = self._model.encode(rest).tokens
        else:
            pieces = self._model.encode(rest, out_type=str)
        return [tag, *pieces] if tag else pieces

    def decode(self, pieces: Sequence[str]) -> str:
        """Return the text of pieces."""
        if self._kind == WordTokenizer.kind:
            return " ".join(pieces)
        if self._kind == CharacterTokenizer.kind:
            return "".join(pieces)
        if self._kind == ByteTokenizer.kind:
            values = [
                bytes([int(each[3:5], 16)]) if each.startswith("<0x") and each.endswith(">")
                else each.encode()
                for each in pieces
            ]  # fmt: skip
            return b"".join(values).decode(errors="replace")
        if self._kind == JsonTokenizer.kind:
            ids = [self._model.token_to_id(each) for each in pieces]
            text: str = self._model.decode(ids, skip_special_tokens=False)
            return text
        found: str = self._model.decode(list(pieces))
        return found

    def _tag(self, text: str) -> str:
        """Return the tag that a text begins with, if the tokenizer would split it otherwise."""
        if self._kind == ImportedTokenizer.kind:
            tag = text[: text.find("<<") + 2] if text.startswith(">>") else ""
            return tag if tag in self._settings["pieces"] else ""
        if self._kind in _SIMPLE:
            special: list[str] = self._settings["special"]
            return max((each for each in special if text.startswith(each)), key=len, default="")
        return ""


class Program(NamedTuple):
    """The parts of a program that tokenize."""

    imports: str
    """Lines that import libraries."""
    setup: str
    """Lines that load the tokenizers from `directory`."""
    encode: str
    """An expression of the pieces of the text."""
    decode: str
    """An expression of the text of `{pieces}`."""


_BYTES = (
    'names = [chr(n) if 0x21 <= n <= 0x7E else f"<0x{n:02X}>" for n in range(256)]\n'
    "values = {each: n for n, each in enumerate(names)}\n"
)


def program(bundle: TextBundle, text: str) -> Program:
    """Return the parts of a program that tokenize, for the tokenizers of a bundle."""
    joint, languages = bundle.config.joint_tokenizer, bundle.config.target_languages
    names = ("pieces", "pieces") if joint else ("source_pieces", "target_pieces")
    sides = (bundle.source_tokenizer.kind, bundle.target_tokenizer.kind)
    loaded = [_loaded(*each) for each in zip(sides, names, stems(joint), strict=True)]
    tag = tag_of(languages[0]) if languages else ""
    if tag and sides[0] in (CharacterTokenizer.kind, ByteTokenizer.kind):
        encode = f'["{tag}", *{_encode(sides[0], names[0], f" {text}")}]'
    else:
        encode = _encode(sides[0], names[0], f"{tag} {text}".strip())
    return Program(
        "".join(dict.fromkeys(imports for imports, _ in loaded)),
        "".join(dict.fromkeys(setup for _, setup in loaded)),
        encode,
        _decode(sides[1], names[1]),
    )


def _loaded(kind: str, name: str, stem: str) -> tuple[str, str]:
    """Return the lines that import a library, and those that load a tokenizer."""
    if kind in (WordTokenizer.kind, CharacterTokenizer.kind):
        return "", ""
    if kind == ByteTokenizer.kind:
        return "", _BYTES
    path = f'str(directory / "{stem}.model")'
    if kind == JsonTokenizer.kind:
        return "import tokenizers\n", f"{name} = tokenizers.Tokenizer.from_file({path})\n"
    processor = f"sentencepiece.SentencePieceProcessor(model_file={path})"
    return "import sentencepiece\n", f"{name} = {processor}\n"


def _encode(kind: str, name: str, text: str) -> str:
    simple = {
        WordTokenizer.kind: f'"{text}".split(" ")',
        CharacterTokenizer.kind: f'list("{text}")',
        ByteTokenizer.kind: f'[names[each] for each in "{text}".encode()]',
        JsonTokenizer.kind: f'{name}.encode("{text}").tokens',
    }
    return simple.get(kind, f'{name}.encode("{text}", out_type=str)')


def _decode(kind: str, name: str) -> str:
    simple = {
        WordTokenizer.kind: '" ".join({pieces})',
        CharacterTokenizer.kind: '"".join({pieces})',
        ByteTokenizer.kind: "bytes(values.get(each, 10) for each in {pieces})"
        '.decode(errors="replace")',
        JsonTokenizer.kind: f"{name}.decode([{name}.token_to_id(each) for each in {{pieces}}])",
    }
    return simple.get(kind, f"{name}.decode({{pieces}})")


def stems(joint: bool) -> tuple[str, str]:
    """Return the beginnings of the names of the tokenizers' files of both sides."""
    return (JOINT, JOINT) if joint else SIDES
