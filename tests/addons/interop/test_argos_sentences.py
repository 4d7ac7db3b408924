"""The splitter of a package finds the sentences that crosshead finds."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from crosshead.addons.interop.argos_sentences import (
    DIGIT,
    DOT,
    LOWER,
    PAD,
    UPPER,
    kinds,
    sentence_splitter,
)
from crosshead.text.sentences import split_sentences

TEXTS = [
    "A dog runs. Two men sit! Do they? Yes.",
    'He said "Stop!" Then he left.',
    "It costs 3.14 dollars. or so they say.",
    "J. S. Bach was born in 1685. He died on 28. July.",
    "今日は。元気ですか？「はい。」そうです。",
    "Wait... what? No",
    "“Is it?” she asked. (Yes.) Good",
    "no mark at all",
]


def test_characters_have_kinds() -> None:
    found = kinds()
    assert (found["."], found["a"], found["Ä"], found["7"]) == (DOT, LOWER, UPPER, DIGIT)
    assert "中" not in found and PAD not in found.values()


@pytest.mark.parametrize("text", TEXTS)
def test_sentences_are_those_of_crosshead(text: str, tmp_path: Path) -> None:
    """MiniSBD itself runs the model, as in Argos Translate."""
    minisbd = pytest.importorskip("minisbd")
    (tmp_path / "en.onnx").write_bytes(sentence_splitter("en"))
    found = minisbd.SBDetect(str(tmp_path / "en.onnx"), use_gpu=False).sentences(text)
    assert [each.strip() for each in found] == [each.strip() for each in split_sentences(text)]


def test_the_model_ends_sentences_as_crosshead() -> None:
    """The same without MiniSBD: the class 2 of a character ends a sentence."""
    session = onnxruntime.InferenceSession(sentence_splitter("en"))
    vocabulary = json.loads(session.get_modelmeta().custom_metadata_map["vocab"])["_unit2id"]
    text = TEXTS[0]
    units = np.array([[vocabulary.get(each, 1) for each in text] + [PAD]])
    features = np.zeros((1, len(text) + 1, 1), np.float32)
    [classes] = session.run(None, {"units": units, "features": features})
    ends = np.flatnonzero(classes[0, : len(text)].argmax(-1) == 2)
    assert [text[end] for end in ends] == [".", "!", "?", "."] and len(TEXTS[0]) - 1 in ends
