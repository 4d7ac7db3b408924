"""A splitter of sentences in the form of MiniSBD, which Argos Translate runs.

MiniSBD asks an ONNX model for the class of each character: 2 ends a sentence. This model has no
learned weights: it computes most rules of `crosshead.text.sentences.split_sentences` from the
kinds of neighbouring characters. It knows no abbreviations.
"""

import json
import sys

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
    graph = _Graph(opset=13)
    end = _ends(graph)
    graph.add("Cast", [end], to=graph.types.FLOAT, out="is_end")
    zeros = graph.add("Sub", ["is_end", "is_end"])
    stay = graph.add("Sub", [graph.number("half", 0.5), "is_end"])
    columns = [graph.add("Unsqueeze", [each, graph.whole("last", [-1])]) for each in (stay, zeros)]
    columns.append(graph.add("Unsqueeze", ["is_end", "last"]))
    graph.add("Concat", columns, axis=-1, out="classes")
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


def _ends(graph: "_Graph") -> str:
    """Return the name of the truth values of which characters end a sentence."""
    at = {offset: graph.shifted(offset) for offset in (-3, -2, -1, 0, 1, 2)}

    def is_one(offset: int, *wanted: int) -> str:
        return graph.any([graph.equal(at[offset], kind) for kind in wanted])

    western, marks = (ENDER, DOT), (ENDER, DOT, IDEOGRAPHIC)
    before_space = is_one(1, SPACE, PAD)
    # The space before the text counts as one, so that an initial may begin it.
    initial = graph.all([is_one(-1, UPPER, LOWER), is_one(-2, SPACE)])
    one_digit = graph.all([is_one(-1, DIGIT), is_one(-2, SPACE)])
    two_digits = graph.all([is_one(-1, DIGIT), is_one(-2, DIGIT), is_one(-3, SPACE)])
    ordinal = graph.all([graph.any([one_digit, two_digits]), graph.no(is_one(1, PAD))])
    short = graph.all([is_one(0, DOT), graph.any([initial, ordinal])])
    goes_on = graph.all([is_one(1, SPACE), is_one(2, LOWER)])
    closed = graph.all([is_one(0, CLOSER), is_one(-1, *western), before_space])
    return graph.any(
        [
            graph.all([is_one(0, *western), before_space, graph.no(short), graph.no(goes_on)]),
            graph.all([closed, graph.no(goes_on)]),
            graph.all([is_one(0, IDEOGRAPHIC), graph.no(is_one(1, CLOSER, *marks))]),
            graph.all([is_one(0, CLOSER), is_one(-1, IDEOGRAPHIC)]),
        ]
    )


class _Graph(Nodes):
    """The graph of the splitter, with its operations on kinds of characters."""

    def shifted(self, offset: int) -> str:
        """Return the kinds of the characters `offset` places later, with a space before the text.

        The characters after the text are padding.
        """
        before, after = max(-offset, 0), max(offset, 0)
        pads = self.whole(f"pads_{offset}", [0, before, 0, after])
        fill = self.whole(f"fill_{offset}", [SPACE if before else PAD])
        scalar = self.add("Squeeze", [fill])
        padded = self.add("Pad", ["units", pads, scalar])
        starts = self.whole(f"start_{offset}", [after])
        ends = self.whole(f"end_{offset}", [-before if before else sys.maxsize])
        return self.add("Slice", [padded, starts, ends, self.whole("axis", [1])])

    def equal(self, value: str, kind: int) -> str:
        """Return where a value has a kind."""
        return self.add("Equal", [value, self.whole(f"kind_{kind}", [kind])])

    def any(self, values: list[str]) -> str:
        """Return where any of the values is true."""
        return self._joined("Or", values)

    def all(self, values: list[str]) -> str:
        """Return where all values are true."""
        return self._joined("And", values)

    def no(self, value: str) -> str:
        """Return where a value is false."""
        return self.add("Not", [value])

    def _joined(self, op: str, values: list[str]) -> str:
        first, *rest = values
        for each in rest:
            first = self.add(op, [first, each])
        return first
