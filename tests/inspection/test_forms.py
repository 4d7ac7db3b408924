import base64
import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from crosshead.inspection import attention_weights
from crosshead.inspection.forms import trace_form, weights_form
from crosshead.inspection.trace import trace
from tests.inspection.pipelines import CONFIGS, pipeline_of

TEXT = "to be or"


def unpacked(form: dict[str, Any]) -> np.ndarray:
    """A tensor as a page reads it."""
    data = np.frombuffer(base64.b64decode(form["data"]), np.dtype(form["type"]).newbyteorder("<"))
    return data.reshape(form["shape"])


@pytest.mark.parametrize("name", CONFIGS)
def test_a_page_reads_the_numbers_of_the_trace(name: str) -> None:
    found = trace(pipeline_of(name), TEXT)
    form = json.loads(json.dumps(trace_form(found)))
    assert form["attention"].keys() == found.attention.keys()
    for kind, layers in found.attention.items():
        read = form["attention"][kind]
        assert (read["queries"], read["keys"]) == found.axes[kind]
        for layer, packed in zip(layers, read["layers"], strict=True):
            for field in dataclasses.fields(layer):
                expected = getattr(layer, field.name).numpy()
                assert np.array_equal(unpacked(packed[field.name]), expected)
    assert form["target"] == found.target and len(form["ids"]) == len(form["target"])
    assert form["probabilities"] == found.probabilities
    assert [each["text"] for each in form["found"]] == [each.text for each in found.found]


def test_weights_are_a_trace_of_one_kind() -> None:
    found = attention_weights(pipeline_of("transformer"), TEXT, kind="encoder")
    form = json.loads(json.dumps(weights_form(found)))
    [(kind, read)] = form["attention"].items()
    assert kind == "encoder" and read["keys"] == found.keys
    for layer, weights in zip(read["layers"], found.weights, strict=True):
        assert np.array_equal(unpacked(layer["weights"]), weights.numpy())
