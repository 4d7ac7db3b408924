"""Exports to Argos Translate and LibreTranslate: one file `.argosmodel`.

The file is a zip archive with one folder: a CTranslate2 model, a SentencePiece model, a splitter of
sentences and `metadata.json`. With the splitter inside, the package translates without a network.
"""

import json
import tempfile
import zipfile
from pathlib import Path

from crosshead.addons.interop.argos_sentences import sentence_splitter
from crosshead.addons.interop.base import EXAMPLE, Export, ForeignSearch, Limit, about
from crosshead.addons.interop.ctranslate2 import CTRANSLATE2, Loaded, write_model
from crosshead.addons.interop.plain_tokenizer import PlainTokenizer
from crosshead.bundle.places import CARD
from crosshead.bundle.text_bundle import TextBundle
from crosshead.text.imported import ImportedTokenizer
from crosshead.text.parallel.languages import language_name
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
        write_model(bundle, kind, model)
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


class LoadedPackage(Loaded):
    """The model and the tokenizer of a package, as Argos Translate loads them."""

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        [package] = directory.glob(f"*{SUFFIX}")
        with tempfile.TemporaryDirectory() as scratch:
            with zipfile.ZipFile(package) as archive:
                archive.extractall(scratch)
            [folder] = Path(scratch).iterdir()
            read, show = (
                PlainTokenizer(each, folder, "sentencepiece")
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
    extra="export",
    modules=("ctranslate2",),
    accepts={**CTRANSLATE2.accepts, "tokenizer.kind": ("bpe", "unigram", "sentencepiece")},
    refuses=(
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
