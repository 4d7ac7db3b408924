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
from tempfile import TemporaryDirectory
from typing import Any

from crosshead.addons.interop.base import (
    OTHER_WIDTHS,
    OWN_POSITIONS,
    Export,
    ForeignSearch,
    Limit,
    Tolerance,
    json_bytes,
    tagged_example,
)
from crosshead.addons.interop.ctranslate2 import output_bias
from crosshead.addons.interop.generation import (
    GENERATION,
    control,
    search_arguments,
    write_files,
    write_generation,
)
from crosshead.addons.interop.huggingface import ACCEPTS, settings
from crosshead.addons.interop.onnx_graph import Weights, decoder_graph, encoder_graph
from crosshead.addons.interop.onnx_runtime import (
    CONFIG,
    DECODER,
    DTYPES,
    ENCODER,
    FOLDER,
    JS_CONFIG,
    TOKENIZER,
    LoadedGraphs,
)
from crosshead.addons.interop.tokenizer_json import (
    foreign_ids,
    tokenizer_json,
    tokenizer_settings,
)
from crosshead.addons.interop.weights import to_bart, with_repeated_heads
from crosshead.bundle.text_bundle import TextBundle
from crosshead.models.transformer import Transformer
from crosshead.text.pieces import CONTROL
from crosshead.text.subwords import SubwordTokenizer
from crosshead.vocabulary import BOS, EOS, PAD, UNK

PAGE = "translate.html"
"""The page that translates in a browser. It lies beside this module, and in every export."""


def quantised(graph: bytes) -> bytes:
    """Return a graph with its weights in eight bits, by ONNX Runtime's dynamic quantisation.

    Matrices have a scale for each output, embeddings one scale. Activations become eight bits at
    run time, with one scale for a batch. The weights have no sign: with signed ones, the products
    of a processor with AVX2 and without VNNI instructions overflow.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.quant_utils import add_pre_process_metadata

    model = onnx.load_from_string(graph)
    # The written graph has nothing to simplify first. Without the mark, the library warns.
    add_pre_process_metadata(model)
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.onnx"
        quantize_dynamic(model, path, per_channel=True, weight_type=QuantType.QUInt8)
        return path.read_bytes()


_STORED: dict[str, Callable[[bytes], bytes]] = {"float32": bytes, "int8": quantised}
"""The function that brings a graph into each number format."""


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model and its tokenizer."""
    tokenizer = bundle.source_tokenizer
    assert isinstance(tokenizer, SubwordTokenizer)
    weights = _weights(bundle)
    stored = _STORED[kind]
    suffix = "_quantized" if kind == "int8" else ""
    tokens = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS, "unk_token": UNK}
    names = {name: CONTROL[index] for name, index in tokens.items()}
    contents = {
        CONFIG: json_bytes(_settings(bundle, DTYPES[kind])),
        GENERATION: json_bytes(_generation(bundle)),
        TOKENIZER: tokenizer_json(tokenizer),
        "tokenizer_config.json": tokenizer_settings(bundle.config.longest_source + 1, names),
        PAGE: files("crosshead.addons.interop").joinpath(PAGE).read_bytes(),
        f"{FOLDER}/{ENCODER}{suffix}.onnx": stored(encoder_graph(weights)),
        f"{FOLDER}/{DECODER}{suffix}.onnx": stored(decoder_graph(weights)),
    }
    (directory / FOLDER).mkdir()
    write_files(directory, contents)


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as the defaults of `generate`."""
    write_generation({**_generation(bundle), **search_arguments(search)}, directory)


def _weights(bundle: TextBundle) -> Weights:
    """Return the weights of a bundle's model in the form of the graphs."""
    model = bundle.model
    assert isinstance(model, Transformer)
    values = with_repeated_heads(model)
    # No library needs to know the tokens that search never produces: the graph excludes them.
    values["projection.bias"] = output_bias(model.projection.bias, bundle)
    rows = [foreign_ids(each) for each in (bundle.source_tokenizer, bundle.target_tokenizer)]
    family = to_bart(model.config, values, rows)
    return Weights(model, family, settings(bundle)["max_position_embeddings"])


def _settings(bundle: TextBundle, dtype: str) -> dict[str, Any]:
    """Return the content of `config.json`."""
    return {
        **settings(bundle),
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "decoder_vocab_size": bundle.config.target_vocabulary,
        # Without it, the library chooses the number format by the machine.
        JS_CONFIG: {"dtype": dtype},
    }


def _generation(bundle: TextBundle) -> dict[str, Any]:
    ids = foreign_ids(bundle.target_tokenizer)
    return {**control(ids, bundle.specials.start), "forced_eos_token_id": None}


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


_POSITIONS = tuple(each for each in OWN_POSITIONS if each not in ("shaw", "t5"))
"""The positions without learned vectors or biases of distances."""

ONNX = Export(
    name="onnx",
    modules=("onnxruntime",),
    accepts={
        **ACCEPTS,
        "model.positions": _POSITIONS,
        "tokenizer.kind": ("bpe", "unigram"),
    },
    refuses=(
        OTHER_WIDTHS,
        Limit(
            "tokenizer.joint = false",
            lambda bundle: not bundle.config.joint_tokenizer,
            "transformers.js has one vocabulary for both sides: train with joint = true",
        ),
    ),
    types={"float32": Tolerance(1e-3, 1e-4, 1), "int8": Tolerance(0.5, 0.03, 20)},
    write=write,
    write_search=write_search,
    load=LoadedGraphs,
    usage=usage,
    writes_with=("onnx", "onnxruntime", "tokenizers"),
    language="js",
    library="transformers.js",
    notes=_IN_A_BROWSER,
)
"""The export of translation models."""
