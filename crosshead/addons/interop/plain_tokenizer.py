"""The tokenizer files beside a model of CTranslate2, read as programs without crosshead read them.

The verification runs the very lines that stand in the program of an export's README.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.bundle.text_bundle import TextBundle
from crosshead.text.imported import ImportedTokenizer, JsonTokenizer
from crosshead.text.parallel.languages import tag_of
from crosshead.text.symbols import ByteTokenizer, CharacterTokenizer, WordTokenizer
from crosshead.text.tokenizers import JOINT, SIDES, Tokenizer


class Code(NamedTuple):
    """The parts of a program that tokenize. `NAME` is a tokenizer, `STEM` the name of its file."""

    encode: str
    """An expression of the pieces of the text TEXT."""
    decode: str
    """An expression of the text of the pieces PIECES."""
    imports: str = ""
    setup: str = ""
    """Lines that load the tokenizer from `directory`."""


_SENTENCEPIECE = Code(
    "NAME.encode(TEXT, out_type=str)",
    "NAME.decode(PIECES)",
    "import sentencepiece\n",
    'NAME = sentencepiece.SentencePieceProcessor(model_file=str(directory / "STEM.model"))\n',
)

_CODE = {
    WordTokenizer.kind: Code('TEXT.split(" ")', '" ".join(PIECES)'),
    CharacterTokenizer.kind: Code("list(TEXT)", '"".join(PIECES)'),
    ByteTokenizer.kind: Code(
        "[names[each] for each in TEXT.encode()]",
        'b"".join(values.get(each, each.encode()) for each in PIECES).decode(errors="replace")',
        setup='names = [chr(n) if 0x21 <= n <= 0x7E else f"<0x{n:02X}>" for n in range(256)]\n'
        "values = {each: bytes([n]) for n, each in enumerate(names)}\n",
    ),
    JsonTokenizer.kind: Code(
        "NAME.encode(TEXT).tokens",
        "NAME.decode([NAME.token_to_id(each) for each in PIECES], skip_special_tokens=False)",
        "import tokenizers\n",
        'NAME = tokenizers.Tokenizer.from_file(str(directory / "STEM.model"))\n',
    ),
}
"""The code of each kind of tokenizer. All other kinds have a SentencePiece model."""

_WITHOUT_TAGS = (CharacterTokenizer.kind, ByteTokenizer.kind, ImportedTokenizer.kind)
"""The kinds whose code splits a tag of a target language, so that it is given as a piece."""


def _code(tokenizer: Tokenizer, name: str, stem: str) -> Code:
    parts = _CODE.get(tokenizer.kind, _SENTENCEPIECE)
    return Code(*(each.replace("NAME", name).replace("STEM", stem) for each in parts))


class PlainTokenizer:
    """A tokenizer between texts and pieces, from the files of an export."""

    def __init__(self, tokenizer: Tokenizer, directory: Path, stem: str) -> None:
        self._tags = tokenizer.special if tokenizer.kind in _WITHOUT_TAGS else ()
        self._code = _code(tokenizer, "pieces", stem)
        self._names: dict[str, Any] = {"directory": directory}
        exec(self._code.imports + self._code.setup, self._names)

    def encode(self, text: str) -> list[str]:
        """Return the pieces of a text. A tag of a target language before it is a piece."""
        tag = max((each for each in self._tags if text.startswith(each)), key=len, default="")
        rest = text.removeprefix(tag)
        found = eval(self._code.encode, {**self._names, "TEXT": rest}) if rest else []
        return [tag, *found] if tag else found

    def decode(self, pieces: Sequence[str]) -> str:
        """Return the text of pieces."""
        text: str = eval(self._code.decode, {**self._names, "PIECES": list(pieces)})
        return text


def plain_tokenizers(bundle: TextBundle, directory: Path) -> tuple[PlainTokenizer, PlainTokenizer]:
    """Return the tokenizers of source and target from the files of an export."""
    source, target = stems(bundle)
    return (
        PlainTokenizer(bundle.source_tokenizer, directory, source),
        PlainTokenizer(bundle.target_tokenizer, directory, target),
    )


def program(bundle: TextBundle, text: str, pieces: str) -> Code:
    """Return the code that encodes a text, and that decodes what the expression `pieces` gives."""
    names = SIDES if not bundle.config.joint_tokenizer else ("pieces", "pieces")
    sides = (bundle.source_tokenizer, bundle.target_tokenizer)
    source, target = map(_code, sides, names, stems(bundle))
    languages = bundle.config.target_languages
    tag = tag_of(languages[0]) if languages else ""
    apart = bool(tag) and sides[0].kind in _WITHOUT_TAGS
    encode = source.encode.replace("TEXT", f'"{" " if apart else tag and tag + " "}{text}"')
    if apart:
        encode = f'["{tag}", *{encode}]'
    return Code(
        encode,
        target.decode.replace("PIECES", pieces),
        "".join(dict.fromkeys([source.imports, target.imports])),
        "".join(dict.fromkeys([source.setup, target.setup])),
    )


def stems(bundle: TextBundle) -> tuple[str, str]:
    """Return the beginnings of the names of the tokenizers' files of both sides."""
    return (JOINT, JOINT) if bundle.config.joint_tokenizer else SIDES
