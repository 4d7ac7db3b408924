"""A splitter of sentences in the form of MiniSBD, which Argos Translate runs.

MiniSBD asks an ONNX model for the class of each character: 2 ends a sentence. This model has no
learned weights: a convolution looks for the rules below, which are most of those of
`crosshead.text.sentences.split_sentences`. It knows no abbreviations.
"""

import json
import sys
from collections.abc import Collection

import numpy as np

from crosshead.addons.interop.onnx_nodes import Nodes

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
