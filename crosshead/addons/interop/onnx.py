"""Exports to ONNX: the layout that ONNX Runtime, optimum and transformers.js load.

The graphs are written node by node with `onnx.helper` (`onnx_graph.py`), not traced
by `torch.onnx.export`. Tracing needs a further library and about half a minute for each graph, and
it fixes sizes silently, such as that of the batch. A written graph has about 300 lines, names every
weight as Hugging Face does, and takes options that `MarianMTModel` lacks, such as another epsilon
in layer norms or rotary positions. The weights are those of the export to Hugging Face.

`config.json` says `marian` for every model, because optimum and transformers.js read only sizes and
names of inputs from it. The graphs hold the rest.
"""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from crosshead.addons.interop.bart import to_family
from crosshead.addons.interop.base import (
    EXACT,
    SINUSOIDS,
    Cell,
    ForeignSearch,
    Format,
    Tolerance,
    cells,
    json_bytes,
    tagged_example,
    valued,
)
from crosshead.addons.interop.ctranslate2 import output_bias
from crosshead.addons.interop.generation import (
    GENERATION,
    control,
    search_arguments,
    write_generation,
)
from crosshead.addons.interop.huggingface import HUGGINGFACE, rewritten, settings
from crosshead.addons.interop.joined_vocabulary import JoinedVocabulary
from crosshead.addons.interop.onnx_graph import Weights, decoder_graph, encoder_graph
from crosshead.addons.interop.onnx_int8 import quantised
from crosshead.addons.interop.onnx_runtime import (
    CONFIG,
    DTYPES,
    FOLDER,
    JS_CONFIG,
    TOKENIZER,
    Dtype,
    LoadedGraphs,
    exported_vocabulary,
    graph_names,
)
from crosshead.addons.interop.options import OPTIONS
from crosshead.addons.interop.rows import foreign_ids
from crosshead.addons.interop.tokenizer_json import tokenizer_json
from crosshead.bundle.text_bundle import TextBundle
from crosshead.models.transformer import Transformer
from crosshead.system.files import atomic_write
from crosshead.text.imported import ImportedTokenizer
from crosshead.text.subwords import SubwordTokenizer
from crosshead.vocabulary import BOS, EOS, PAD, UNK

PAGE = "translate.html"
"""The page that translates in a browser. It lies beside this module, and in every export."""

_STORED: dict[str, Callable[[bytes], bytes]] = {"float32": bytes, "int8": quantised}
"""The function that brings a graph into each number format."""


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model and its tokenizer."""
    tokenizer = bundle.source_tokenizer
    assert isinstance(tokenizer, ImportedTokenizer | SubwordTokenizer)
    joined, dtype = exported_vocabulary(bundle), DTYPES[kind]
    weights = _weights(bundle, joined)
    stored = _STORED[kind]
    encoder, decoder = graph_names(dtype)
    contents = {
        CONFIG: json_bytes(_settings(bundle, joined, dtype)),
        GENERATION: json_bytes(_generation(bundle)),
        TOKENIZER: tokenizer_json(tokenizer, joined),
        "tokenizer_config.json": json_bytes(_tokenizer_settings(bundle, joined)),
        PAGE: files("crosshead.addons.interop").joinpath(PAGE).read_bytes(),
        f"{FOLDER}/{encoder}": stored(encoder_graph(weights)),
        f"{FOLDER}/{decoder}": stored(decoder_graph(weights)),
    }
    (directory / FOLDER).mkdir()
    for name, data in contents.items():
        atomic_write(directory / name, data)


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as the defaults of `generate`."""
    write_generation({**_generation(bundle), **search_arguments(search)}, directory)


def _weights(bundle: TextBundle, joined: JoinedVocabulary) -> Weights:
    """Return the weights of a bundle's model in the form of the graphs."""
    model = bundle.model
    assert isinstance(model, Transformer)
    values = dict(rewritten(model))
    # No library needs to know the tokens that search never produces: the graph excludes them.
    values["projection.bias"] = output_bias(model.projection.bias, bundle)
    rows = [foreign_ids(each) for each in (bundle.source_tokenizer, bundle.target_tokenizer)]
    family = to_family(model.config, values, rows)
    return Weights(model, family, settings(bundle)["max_position_embeddings"], joined.target_rows)


def _settings(bundle: TextBundle, joined: JoinedVocabulary, dtype: Dtype) -> dict[str, Any]:
    """Return the content of `config.json`."""
    return {
        **settings(bundle),
        **_control(bundle, joined),
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": len(joined.pieces),
        "decoder_vocab_size": len(joined.pieces),
        # Without it, the library chooses the number format by the machine.
        JS_CONFIG: {"dtype": dtype.name},
    }


def _control(bundle: TextBundle, joined: JoinedVocabulary) -> dict[str, int | None]:
    return control(joined.target, bundle.specials.start)


def _generation(bundle: TextBundle) -> dict[str, Any]:
    return {**_control(bundle, exported_vocabulary(bundle)), "forced_eos_token_id": None}


def _tokenizer_settings(bundle: TextBundle, joined: JoinedVocabulary) -> dict[str, Any]:
    """Return the content of `tokenizer_config.json`.

    The class is a general one: those of Marian look for SentencePiece's own files.
    """
    names = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS, "unk_token": UNK}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": bundle.config.longest_source + 1,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        **{
            name: joined.pieces[row]
            for name, index in names.items()
            if (row := joined.source[index]) is not None
        },
    }


def usage(bundle: TextBundle, path: str) -> str:
    """Return the program that loads an export and translates with it."""
    return f"""// JavaScript, in Node or in a browser
import {{ env, pipeline }} from "@huggingface/transformers";

env.allowLocalModels = true;
env.allowRemoteModels = false;
env.localModelPath = "./"; // the folder, or the address, that holds the export
const translate = await pipeline("translation", "{path}");
const [found] = await translate("{tagged_example(bundle)}");
console.log(found.translation_text);
"""


_IN_A_BROWSER = (
    "In a browser: copy the folder `dist` of the npm package `@huggingface/transformers`, version "
    "3, into the export as `transformers`. Serve the export with `python -m http.server --bind "
    f"127.0.0.1`, and open `http://127.0.0.1:8000/{PAGE}`."
)

_CELLS = {
    **HUGGINGFACE.cells,
    "model.norm = pre": EXACT,
    "model.norm = pre with model.tie other than three-way": EXACT,
    "model.norm_eps other than 1e-5": EXACT,
    **valued("model.positions", SINUSOIDS, Cell("rewritten", "written as a table of positions")),
    **valued("model.positions", ("learned", "rotary", "shaw", "t5", "alibi", "none"), EXACT),
    "model.positions = (registered by a program)": Cell(
        "refused", "train with positions of crosshead's own"
    ),
    "an imported vocabulary without pieces of its SentencePiece model": Cell(
        "refused", "export to ctranslate2"
    ),
    "tokenizer.kind = unigram": Cell(
        "exact", "transformers.js reads a character without a piece as unknown"
    ),
    "tokenizer.kind = sentencepiece": Cell(
        "exact", "a tag such as >>deu<< is a piece of its own anywhere in a line"
    ),
    "tokenizer.joint = false": Cell(
        "rewritten", "one vocabulary holds the pieces of the source, and then those of the target"
    ),
}

ONNX = Format(
    name="onnx",
    options=OPTIONS,
    extra="export",
    modules=("onnxruntime",),
    cells=cells(OPTIONS, _CELLS),
    types={"float32": Tolerance(1e-3, 1e-4, 1), "int8": Tolerance(0.5, 0.03, 20)},
    write=write,
    write_search=write_search,
    load=LoadedGraphs,
    usage=usage,
    writes_with=("onnx", "tokenizers"),
    quantises_with=("onnxruntime",),
    language="js",
    library="transformers.js",
    notes=_IN_A_BROWSER,
)
"""The format `onnx`."""
