"""Exports to Argos Translate and LibreTranslate: one file `.argosmodel`.

The file is a zip archive with one folder: a CTranslate2 model, a SentencePiece model, a splitter of
sentences and `metadata.json`. With the splitter inside, the package translates without a network.
"""

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.addons.interop import ctranslate2
from crosshead.addons.interop.argos_sentences import sentence_splitter
from crosshead.addons.interop.base import (
    EXACT,
    EXAMPLE,
    OTHER_KINDS,
    SUBWORDS,
    Cell,
    ForeignSearch,
    Format,
    cells,
    valued,
)
from crosshead.addons.interop.ctranslate2 import ids_of, pieces_of, scored, translator_of
from crosshead.addons.interop.options import OPTIONS
from crosshead.addons.interop.readme import about
from crosshead.bundle.places import CARD
from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import UserError
from crosshead.text.batching import Example
from crosshead.text.imported import ImportedTokenizer
from crosshead.text.parallel.languages import language_name
from crosshead.text.pieces import load_pieces
from crosshead.text.subwords import SubwordTokenizer

SUFFIX = ".argosmodel"

PACKAGE_VERSION = "1.0"
"""The version of a package. Argos names its folder by it."""

ARGOS_VERSION = "1.11.0"
"""The first version of Argos Translate that runs MiniSBD, the form of the packaged splitter."""

SEARCH = ForeignSearch(4, 0.2, 256)
"""The search of Argos Translate, which no package can change."""

_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive, so that the same model gives the same bytes."""


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a package."""
    source, target = _codes(bundle)
    folder = f"translate-{source}_{target}-{PACKAGE_VERSION.replace('.', '_')}"
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch)
        ctranslate2.write_model(bundle, kind, model)
        contents = {f"model/{each.name}": each.read_bytes() for each in sorted(model.iterdir())}
    tokenizer = bundle.source_tokenizer
    assert isinstance(tokenizer, ImportedTokenizer | SubwordTokenizer)
    contents["sentencepiece.model"] = tokenizer.model
    contents[f"minisbd/{source}.onnx"] = sentence_splitter(source)
    contents["metadata.json"] = _metadata(bundle)
    contents[CARD] = _readme(bundle)
    package = directory / f"translate-{source}_{target}{SUFFIX}"
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(f"{folder}/{name}", _TIME), data)


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Do nothing: Argos Translate has its own search settings, `SEARCH`."""


def _codes(bundle: TextBundle) -> tuple[str, str]:
    """Return the codes of source and target language."""
    source, target = bundle.config.source_language, bundle.config.target_language
    assert source is not None and target is not None
    return source, target


def _metadata(bundle: TextBundle) -> bytes:
    source, target = _codes(bundle)
    values = {
        "package_version": PACKAGE_VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": source,
        "from_name": language_name(source),
        "to_code": target,
        "to_name": language_name(target),
        "code": f"translate-{source}_{target}",
    }
    if bundle.config.license:  # Argos ignores it, but who reads the file may need it
        values["license"] = bundle.config.license
    return (json.dumps(values, indent=1) + "\n").encode()


def _readme(bundle: TextBundle) -> bytes:
    source, target = map(language_name, _codes(bundle))
    return f"# {source} to {target}\n\n{about(bundle)}\n".encode()


class LoadedPackage:
    """A package that Argos Translate has installed in a process of its own, without a network."""

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        self._bundle, self._package = bundle, _package(directory)

    @property
    def computes(self) -> str:
        """The number format that CTranslate2 computes in."""
        with _opened(self._package) as parts:
            return str(translator_of(parts.model).compute_type)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of lines, as `Foreign` says, by the packaged SentencePiece model."""
        with _opened(self._package) as parts:
            tokenizer = self._bundle.source_tokenizer
            return [
                ids_of(tokenizer, parts.pieces.encode(line.strip(), out_type=str)) for line in lines
            ]

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of outputs, as `Foreign` says, by the packaged SentencePiece model."""
        target = self._bundle.target_tokenizer
        with _opened(self._package) as parts:
            return [parts.pieces.decode(pieces_of(target, each)) for each in outputs]

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the translation of each line with the search of Argos Translate."""
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                [sys.executable, "-c", _PROGRAM, str(self._package), *_codes(self._bundle)],
                input=json.dumps(list(lines)),
                env=_environment(Path(home)),
                capture_output=True,
                text=True,
            )
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or ["no message"]
            raise UserError(
                f"Argos Translate cannot use the package: {last[0]}; check its installation with "
                "`argospm list`, or choose --to ctranslate2"
            )
        found: list[str] = json.loads(done.stdout.splitlines()[-1])
        return found

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token by CTranslate2, which Argos uses."""
        with _opened(self._package) as parts:
            return scored(translator_of(parts.model), self._bundle, examples)


def expected(bundle: TextBundle, directory: Path, lines: Sequence[str]) -> list[str]:
    """Return the translations of CTranslate2 with the search of Argos Translate.

    The packaged splitter splits a line into sentences, whose tokens are decoded together.
    """
    minisbd = importlib.import_module("minisbd")
    with _opened(_package(directory)) as parts:
        splitter = minisbd.SBDetect(str(parts.splitter), use_gpu=False)
        sentences = [splitter.sentences(line) for line in lines]
        sources = [parts.pieces.encode(each, out_type=str) for some in sentences for each in some]
        translated = translator_of(parts.model).translate_batch(
            sources,
            beam_size=SEARCH.beam,
            length_penalty=SEARCH.length_penalty,
            replace_unknowns=True,
            max_batch_size=1024,
            batch_type="tokens",
        )
        outputs = iter([each.hypotheses[0] for each in translated])
        joined = [[piece for _ in some for piece in next(outputs)] for some in sentences]
        return [parts.pieces.decode(each).replace("_", " ") for each in joined]


class _Parts(NamedTuple):
    """The parts of a package."""

    model: Path
    """The directory of the CTranslate2 model."""
    splitter: Path
    """The splitter of sentences, an ONNX model."""
    pieces: Any
    """The SentencePiece model."""


def _package(directory: Path) -> Path:
    [found] = directory.glob(f"*{SUFFIX}")
    return found


@contextlib.contextmanager
def _opened(package: Path) -> Iterator[_Parts]:
    """Yield the parts of a package, in a directory that exists in the meantime."""
    with tempfile.TemporaryDirectory() as scratch:
        with zipfile.ZipFile(package) as archive:
            archive.extractall(scratch)
        [folder] = Path(scratch).iterdir()
        [splitter] = (folder / "minisbd").iterdir()
        model = folder / "sentencepiece.model"
        pieces, _ = load_pieces(model.read_bytes(), model)
        yield _Parts(folder / "model", splitter, pieces)


def _environment(home: Path) -> dict[str, str]:
    """Return the environment of a process in which Argos Translate finds only one package."""
    packages = home / "packages"
    packages.mkdir()
    return {
        **os.environ,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "ARGOS_PACKAGES_DIR": str(packages),
        "ARGOS_CHUNK_TYPE": "DEFAULT",
        # Argos computes in int8 on most processors; the comparison is of the weights as stored.
        "ARGOS_COMPUTE_TYPE": "default",
        "ARGOS_DEVICE_TYPE": "cpu",
    }


_PROGRAM = """
import json, socket, sys
def refuse(*arguments, **named):
    raise OSError("a package must translate without a network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
import argostranslate.package, argostranslate.translate
package, source, target = sys.argv[1:]
argostranslate.package.install_from_path(package)
translation = argostranslate.translate.get_translation_from_codes(source, target)
print(json.dumps([translation.translate(line) for line in json.load(sys.stdin)]))
"""
"""The program that installs a package and translates lines, without a network."""


def usage(bundle: TextBundle, path: str) -> str:
    """Return the program that installs a package and translates with it."""
    source, target = _codes(bundle)
    return f"""import argostranslate.package
import argostranslate.translate

argostranslate.package.install_from_path("{path}")
print(argostranslate.translate.translate("{EXAMPLE}", "{source}", "{target}"))
"""


_CELLS = {
    **ctranslate2.CTRANSLATE2.cells,
    **valued("tokenizer.kind", OTHER_KINDS, Cell("refused", SUBWORDS)),
    "tokenizer.kind = sentencepiece": EXACT,
    "tokenizer.joint = false": Cell(
        "rewritten", "the package holds the source tokenizer; target pieces need none"
    ),
    "several target languages": Cell(
        "refused", "a package has one direction: train a model of one direction"
    ),
    "unknown languages": Cell(
        "refused",
        "give --source-language and --target-language, or train on files whose names end in "
        "language codes, such as train.en and train.de",
    ),
}

ARGOS = Format(
    name="argos",
    options=OPTIONS,
    extra="argos",
    modules=("argostranslate", "minisbd"),
    cells=cells(OPTIONS, _CELLS),
    types=ctranslate2.CTRANSLATE2.types,
    write=write,
    write_search=write_search,
    load=LoadedPackage,
    usage=usage,
    writes_with=("ctranslate2", "onnx"),
    suffix=SUFFIX,
    fixed_search=SEARCH,
    expected=expected,
)
"""The format `argos`."""
