"""SentencePiece models with a flipped bit: every route that loads one refuses it in one line."""

import hashlib
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crosshead.addons.interop.argos import ARGOS
from crosshead.addons.interop.ctranslate2 import CTRANSLATE2
from crosshead.addons.interop.huggingface import HUGGINGFACE
from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.addons.interop.imports.writing import import_model
from crosshead.errors import DamagedBundle
from crosshead.text.tokenizers import load_tokenizer
from tests.addons.interop.imports.marian_equations import random_arrays, settings, write_model
from tests.addons.interop.sentencepieces import learned, marian_vocabulary
from tests.addons.interop.small_bundles import TEXT, imported_tokenizer, small_bundle

SPMS = (learned(TEXT["source"], 60), learned(TEXT["target"], 60, "bpe"))


def marian(directory: Path, vocabulary: str) -> Path:
    size = len(marian_vocabulary(*SPMS, more=["no", "1e3"])) - 1
    write_model(directory, settings(), random_arrays(settings(), size), SPMS)
    if vocabulary == "spm":
        decoder = (directory / "decoder.yml").read_text()
        (directory / "decoder.yml").write_text(decoder.replace("opus.vocab.yml", "source.spm"))
    return directory / "source.spm"


def huggingface(directory: Path) -> Path:
    HUGGINGFACE.write(small_bundle({"output_bias": True}), "float32", directory)
    return directory / "source.spm"


def ctranslate2(directory: Path) -> Path:
    CTRANSLATE2.write(small_bundle({}, {"joint": False}), "float32", directory)
    return directory / "source.model"


def argos(directory: Path) -> Path:
    ARGOS.write(small_bundle(), "float32", directory)
    [package] = directory.iterdir()
    with zipfile.ZipFile(package) as archive:
        archive.extractall(directory)
    package.unlink()
    [model] = directory.glob("*/sentencepiece.model")
    return model


def own(kind: str, directory: Path) -> Path:
    tokenizer = small_bundle({}, {"kind": kind}).source_tokenizer
    tokenizer.save(directory, "tokenizer")
    return directory / "tokenizer.model"


def imported(directory: Path) -> Path:
    imported_tokenizer(TEXT["source"]).save(directory, "tokenizer")
    return directory / "tokenizer.model"


ROUTES: dict[str, Callable[[Path], Path]] = {
    "marian": lambda directory: marian(directory, "yml"),
    "marian-spm": lambda directory: marian(directory, "spm"),
    "huggingface": huggingface,
    "ctranslate2": ctranslate2,
    "argos": argos,
    "bpe": lambda directory: own("bpe", directory),
    "unigram": lambda directory: own("unigram", directory),
    "imported": imported,
}


def flips(model: bytes, count: int) -> Iterator[bytes]:
    """Copies of a model with one bit of another byte flipped, most of them in a piece."""
    places = random.Random(1)
    yield model.replace(b"\xe2\x96\x81", b"\x62\x96\x81", 1)  # a piece that is not UTF-8
    yield model.replace(b"<0x", b"<\xb0x", 1)  # a byte's name that is not UTF-8, if there are names
    yield model[: len(model) // 2]
    for _ in range(count):
        copy = bytearray(model)
        copy[places.randrange(min(len(model), 6_000))] ^= 1 << places.randrange(8)
        yield bytes(copy)


@pytest.mark.parametrize("route", ROUTES)
def test_a_flipped_bit_is_harmless_or_refused_in_one_line(route: str, tmp_path: Path) -> None:
    path = ROUTES[route](tmp_path)
    model, refused = path.read_bytes(), list[Exception]()
    is_own = route in ("bpe", "unigram", "imported")
    where = path.parent if route == "argos" else tmp_path
    for damaged in flips(model, 12):
        path.write_bytes(damaged)
        try:
            if is_own:
                metadata = json.loads((tmp_path / "tokenizer.json").read_text())
                metadata["model_sha256"] = hashlib.sha256(damaged).hexdigest()
                (tmp_path / "tokenizer.json").write_text(json.dumps(metadata))
                load_tokenizer(tmp_path, "tokenizer")
            else:
                import_model(where)
        except (DamagedBundle, ForeignModelError) as error:
            refused.append(error)
    assert len(refused) >= 2  # what is no UTF-8, and what is truncated
    assert all("\n" not in str(error) and str(where) in str(error) for error in refused)
    assert {type(error) for error in refused} <= {DamagedBundle if is_own else ForeignModelError}
