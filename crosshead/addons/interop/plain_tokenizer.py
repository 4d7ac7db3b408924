"""The tokenizer files beside a model of CTranslate2, read as programs without crosshead read them.

The verification calls the very functions that stand in the program of an export's README. Each
returns two functions: the pieces of a text, and the text of pieces.
"""

from collections.abc import Callable, Sequence
from inspect import getsource
from pathlib import Path
from typing import Any

from crosshead.bundle.text_bundle import TextBundle
from crosshead.text.imported import ImportedTokenizer, JsonTokenizer
from crosshead.text.parallel.languages import tag_of
from crosshead.text.symbols import ByteTokenizer, CharacterTokenizer, WordTokenizer
from crosshead.text.tokenizers import JOINT, SIDES, Tokenizer


def words(file: Path) -> Any:
    """Words are separated by spaces, and the file is not needed."""
    return lambda text: text.split(" "), " ".join


def characters(file: Path) -> Any:
    """Each character is a piece, and the file is not needed."""
    return list, "".join


def utf8_bytes(file: Path) -> Any:
    """Each byte is a piece, and the file is not needed."""
    names = [chr(n) if 0x21 <= n <= 0x7E else f"<0x{n:02X}>" for n in range(256)]
    values = {each: bytes([n]) for n, each in enumerate(names)}

    def decode(pieces: list[str]) -> str:
        found = b"".join(values.get(each, each.encode()) for each in pieces)
        return found.decode(errors="replace")

    return lambda text: [names[each] for each in text.encode()], decode


def json_tokenizer(file: Path) -> Any:
    """Read a file of the library tokenizers."""
    import tokenizers

    model: Any = tokenizers.Tokenizer.from_file(str(file))

    def decode(pieces: list[str]) -> str:
        ids = [model.token_to_id(each) for each in pieces]
        return str(model.decode(ids, skip_special_tokens=False))

    return lambda text: model.encode(text).tokens, decode


def subwords(file: Path) -> Any:
    """Read a SentencePiece model."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return lambda text: model.encode(text, out_type=str), model.decode


_READERS: dict[str, Callable[[Path], Any]] = {
    WordTokenizer.kind: words,
    CharacterTokenizer.kind: characters,
    ByteTokenizer.kind: utf8_bytes,
    JsonTokenizer.kind: json_tokenizer,
}
"""The function of each kind of tokenizer. All other kinds have a SentencePiece model."""

_WITHOUT_TAGS = (CharacterTokenizer.kind, ByteTokenizer.kind, ImportedTokenizer.kind)
"""The kinds that split a tag of a target language, so that it is given as a piece."""


def _reader(tokenizer: Tokenizer) -> Callable[[Path], Any]:
    return _READERS.get(tokenizer.kind, subwords)


class PlainTokenizer:
    """A tokenizer between texts and pieces, from the files of an export."""

    def __init__(self, tokenizer: Tokenizer, file: Path) -> None:
        self._tags = tokenizer.special if tokenizer.kind in _WITHOUT_TAGS else ()
        self._encode, self._decode = _reader(tokenizer)(file)

    def encode(self, text: str) -> list[str]:
        """Return the pieces of a text. A tag of a target language before it is a piece."""
        tag = max((each for each in self._tags if text.startswith(each)), key=len, default="")
        rest = text.removeprefix(tag)
        found = self._encode(rest) if rest else []
        return [tag, *found] if tag else found

    def decode(self, pieces: Sequence[str]) -> str:
        """Return the text of pieces."""
        text: str = self._decode(list(pieces))
        return text


def plain_tokenizers(bundle: TextBundle, directory: Path) -> tuple[PlainTokenizer, PlainTokenizer]:
    """Return the tokenizers of source and target from the files of an export."""
    source, target = (directory / name for name in _files(bundle))
    return (
        PlainTokenizer(bundle.source_tokenizer, source),
        PlainTokenizer(bundle.target_tokenizer, target),
    )


def program(bundle: TextBundle, text: str) -> tuple[str, str, str]:
    """Return code that defines the functions, that makes `encode` and `decode`, and that encodes.

    The last is an expression of the pieces of a text.
    """
    readers = [_reader(each) for each in (bundle.source_tokenizer, bundle.target_tokenizer)]
    source, target = (
        f'{reader.__name__}(directory / "{name}")'
        for reader, name in zip(readers, _files(bundle), strict=True)
    )
    one = bundle.config.joint_tokenizer
    setup = f"encode, decode = {source}" if one else f"encode, _ = {source}\n_, decode = {target}"
    functions = "\n\n".join(map(getsource, dict.fromkeys(readers)))
    languages = bundle.config.target_languages
    tag = tag_of(languages[0]) if languages else ""
    if tag and bundle.source_tokenizer.kind in _WITHOUT_TAGS:
        return functions, setup, f'["{tag}", *encode(" {text}")]'
    return functions, setup, f'encode("{tag and tag + " "}{text}")'


def _files(bundle: TextBundle) -> list[str]:
    """Return the names of the tokenizers' files of both sides."""
    stems = (JOINT, JOINT) if bundle.config.joint_tokenizer else SIDES
    return [f"{stem}.model" for stem in stems]
