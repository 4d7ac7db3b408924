"""Packages of Argos Translate and LibreTranslate, exported and imported: one file `.argosmodel`.

The file is a zip archive with one folder: a CTranslate2 model, a SentencePiece model, a splitter of
sentences and `metadata.json`. With the splitter inside, the package translates without a network.

The splitter has the form of MiniSBD, which asks an ONNX model for the class of each character: 2
ends a sentence. This model has no learned weights: a convolution looks for rules, which are most of
those of `crosshead.text.sentences.split_sentences`. It knows no abbreviations. An import leaves the
splitter out, because crosshead has its own.
"""

import json
import sys
import tempfile
import zipfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from crosshead.addons.interop.base import EXAMPLE, Export, ForeignSearch, Imported, Limit, about
from crosshead.addons.interop.ctranslate2 import CTRANSLATE2, Loaded, write_model
from crosshead.addons.interop.imports import ctranslate2
from crosshead.addons.interop.imports.reading import ForeignDirectory, ForeignModelError
from crosshead.addons.interop.onnx_nodes import Nodes
from crosshead.addons.interop.plain_tokenizer import PlainTokenizer
from crosshead.bundle.places import CARD
from crosshead.bundle.text_bundle import TextBundle
from crosshead.text.imported import ImportedTokenizer
from crosshead.text.parallel.languages import language_name, looks_like_code
from crosshead.text.subwords import SubwordTokenizer

SUFFIX = ".argosmodel"

_METADATA, _PIECES = "metadata.json", "sentencepiece.model"

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
        write_model(bundle, kind, model)
        contents = {f"model/{each.name}": each.read_bytes() for each in sorted(model.iterdir())}
    tokenizer = bundle.source_tokenizer
    assert isinstance(tokenizer, ImportedTokenizer | SubwordTokenizer)
    contents[_PIECES] = tokenizer.model
    contents[f"minisbd/{source}.onnx"] = sentence_splitter(source)
    contents[_METADATA] = _metadata(bundle)
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


class LoadedPackage(Loaded):
    """The model and the tokenizer of a package, as Argos Translate loads them."""

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        [package] = directory.glob(f"*{SUFFIX}")
        with tempfile.TemporaryDirectory() as scratch:
            with zipfile.ZipFile(package) as archive:
                archive.extractall(scratch)
            [folder] = Path(scratch).iterdir()
            read, show = (
                PlainTokenizer(each, folder / _PIECES)
                for each in (bundle.source_tokenizer, bundle.target_tokenizer)
            )
            super().__init__(bundle, folder / "model", (read, show))


def usage(bundle: TextBundle, path: str) -> str:
    """Return the program that installs a package and translates with it."""
    source, target = _codes(bundle)
    return f"""import argostranslate.package
import argostranslate.translate

argostranslate.package.install_from_path("{path}")
print(argostranslate.translate.translate("{EXAMPLE}", "{source}", "{target}"))
"""


def _has_targets(bundle: TextBundle) -> bool:
    source = bundle.source_tokenizer
    is_tagged = isinstance(source, ImportedTokenizer) and bool(source.special)
    return is_tagged or bool(bundle.config.target_languages)


def _without_codes(bundle: TextBundle) -> bool:
    config = bundle.config
    return None in (config.source_language, config.target_language) and not config.target_languages


ARGOS = Export(
    name="argos",
    modules=("ctranslate2",),
    accepts={**CTRANSLATE2.accepts, "tokenizer.kind": ("bpe", "unigram", "sentencepiece")},
    refuses=(
        *CTRANSLATE2.refuses,
        Limit("several target languages", _has_targets, "train a model of one direction"),
        Limit(
            "unknown languages",
            _without_codes,
            "give --source-language and --target-language, or train on files whose names end in "
            "language codes, such as train.en and train.de",
        ),
    ),
    types=CTRANSLATE2.types,
    write=write,
    write_search=write_search,
    load=LoadedPackage,
    usage=usage,
    writes_with=("ctranslate2", "onnx"),
    suffix=SUFFIX,
    fixed_search=SEARCH,
)
"""The export of translation models."""


def read_package(path: Path, name: str) -> Imported:
    """Return the model of a package as a bundle."""
    directory = ForeignDirectory(path)
    metadata = directory.json(_METADATA)
    if not directory.has(_PIECES):
        raise ForeignModelError(
            f"{path}: has no {_PIECES}; only packages with SentencePiece can be imported"
        )
    source, target = (
        code if isinstance(code := metadata.get(key), str) and looks_like_code(code) else None
        for key in ("from_code", "to_code")
    )
    pieces = directory.bytes(_PIECES)
    found = ctranslate2.read_model(
        ForeignDirectory(path / "model"),
        name,
        "argos",
        models=(pieces, pieces),
        languages=(source, target),
        search=SEARCH,
    )
    licence = metadata.get("license")
    if isinstance(licence, str) and licence.isprintable():
        config = found.bundle.config.model_copy(update={"license": licence})
        found = Imported(replace(found.bundle, config=config), found.notes)
    bundle, notes = found.bundle, [*found.notes]
    if not bundle.config.joint_tokenizer:
        notes.append(
            "the package has no tokenizer of the target: `score` and fine-tuning split targets as "
            "sources are split, so import the model that the package was made from for these"
        )
    return Imported(bundle, notes)


PAD, SPACE, ENDER, DOT, IDEOGRAPHIC, CLOSER, LOWER, UPPER, DIGIT = 0, *range(4, 12)
"""The kinds of characters, as ids of MiniSBD's vocabulary. Ids 1 to 3 have a meaning there."""

_MARKS = {
    ENDER: "!?…؟।۔",
    DOT: ".",
    IDEOGRAPHIC: "。！？｡",
    CLOSER: "\"'”’»›)]}」』】）］",
    SPACE: " ",
}

_WESTERN, _AFTER = {ENDER, DOT}, {SPACE, PAD}

_ENDS: tuple[dict[int, Collection[int]], ...] = (
    {0: _WESTERN, 1: _AFTER},
    {-1: _WESTERN, 0: {CLOSER}, 1: _AFTER},
    {0: {IDEOGRAPHIC}},
    {-1: {IDEOGRAPHIC}, 0: {CLOSER}},
)
"""The rules by which a character ends a sentence: kinds by offset. One of them is enough."""

_GOES_ON: tuple[dict[int, Collection[int]], ...] = (
    {0: _WESTERN, 1: {SPACE}, 2: {LOWER}},
    {-1: _WESTERN, 0: {CLOSER}, 1: {SPACE}, 2: {LOWER}},
    {-2: {SPACE}, -1: {UPPER, LOWER}, 0: {DOT}},  # an initial
    {-2: {SPACE}, -1: {DIGIT}, 0: {DOT}, 1: {SPACE}},  # an ordinal number
    {-3: {SPACE}, -2: {DIGIT}, -1: {DIGIT}, 0: {DOT}, 1: {SPACE}},
    {0: {IDEOGRAPHIC}, 1: {CLOSER, ENDER, DOT, IDEOGRAPHIC}},
)
"""The rules by which it does not. They win. The text begins after a space, so that an initial may
begin it, and ends before padding."""


def kinds() -> dict[str, int]:
    """Return the kind of every character that has one."""
    found = {character: kind for kind, marks in _MARKS.items() for character in marks}
    for character in map(chr, range(sys.maxunicode + 1)):
        if character.islower():
            found[character] = LOWER
        elif character.isupper():
            found[character] = UPPER
        elif character.isdigit():
            found[character] = DIGIT
    return found


def sentence_splitter(language: str) -> bytes:
    """Return the splitter as a serialised ONNX model."""
    graph = Nodes(opset=13)
    rules = (*_ENDS, *_GOES_ON)
    first, last = min(map(min, rules)), max(map(max, rules))
    filters = np.zeros((len(rules), DIGIT + 1, last - first + 1))
    for row, rule in enumerate(rules):
        for offset, wanted in rule.items():
            filters[row, list(wanted), offset - first] = 1
    # A rule holds if all its offsets have the kinds; then the sum is above this bias.
    bias = np.array([0.5 - len(rule) for rule in rules])
    # Class 0 is 0.5, and class 2 is positive if a rule ends the sentence and none goes on.
    classes = np.zeros((len(rules), 3))
    classes[:, 2] = [1] * len(_ENDS) + [-len(rules)] * len(_GOES_ON)

    def padded(x: str, before: int, after: int, kind: int) -> str:
        pads = graph.whole(f"pads_{kind}", [0, before, 0, after])
        return graph.add(
            "Pad", [x, pads, graph.add("Squeeze", [graph.whole(f"kind_{kind}", [kind])])]
        )

    x = padded(padded("units", -first, 0, SPACE), 0, last, PAD)
    x = graph.add("Gather", [graph.tensor("kinds", np.eye(DIGIT + 1)), x])
    x = graph.add("Transpose", [x], perm=[0, 2, 1])
    x = graph.add("Conv", [x, graph.tensor("filters", filters), graph.tensor("bias", bias)])
    x = graph.add("Greater", [x, graph.number("zero", 0.0)])
    x = graph.add("Cast", [x], to=graph.types.FLOAT)
    x = graph.add("Transpose", [x], perm=[0, 2, 1])
    x = graph.add("MatMul", [x, graph.tensor("rules", classes)])
    graph.add("Add", [x, graph.tensor("stay", np.array([0.5, 0, 0]))], out="classes")
    vocabulary = {"<PAD>": PAD, "<UNK>": 1, "<EMPTY>": 2, "<ROOT>": 3, **kinds()}
    names = [*list(vocabulary)[:4], *(f"kind {kind}" for kind in range(SPACE, DIGIT + 1))]
    metadata = {
        "lang_code": language,
        "config": json.dumps({"feat_funcs": ["space_before"]}),
        "vocab": json.dumps(
            {"lang": language, "lower": False, "_unit2id": vocabulary, "_id2unit": names}
        ),
    }
    rows: list[int | str] = ["batch", "characters"]
    return graph.serialized(
        "sentences",
        {"units": (graph.types.INT64, rows), "features": (graph.types.FLOAT, [*rows, 1])},
        {"classes": (graph.types.FLOAT, [*rows, 3])},
        metadata,
    )
