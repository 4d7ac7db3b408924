from pathlib import Path

import pytest
import torch

from crosshead.attention.attend import sdpa
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.errors import ConfigError, DataError
from crosshead.inspection import AttentionWeights, attention_weights, record_attention
from crosshead.models.base import RememberingModel
from crosshead.models.registry import build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from tests.inspection.pipelines import CONFIGS, pipeline_of

SHAPE = TransformerConfig(encoder_layers=2, decoder_layers=3, d_model=8, d_ff=8, heads=2)
SOURCE = torch.tensor([[5, 6, 7, 2], [5, 2, 0, 0]])
TARGET = torch.tensor([[1, 5, 6], [1, 5, 6]])


def attentions(model: torch.nn.Module) -> list[MultiHeadAttention]:
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]


def test_every_attention_is_recorded_by_name() -> None:
    model = build_model(SHAPE, 10, 10).eval()
    with record_attention(model) as recorded:
        model(SOURCE, TARGET)
    assert recorded.keys() == {
        *(f"encoder.layers.{n}.attention" for n in range(2)),
        *(f"decoder.layers.{n}.self_attention" for n in range(3)),
        *(f"decoder.layers.{n}.cross_attention" for n in range(3)),
    }
    [weights] = recorded["decoder.layers.2.cross_attention"]
    assert weights.shape == (2, 2, 3, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3))
    assert torch.all(weights[1, :, :, 2:] == 0)  # padding
    [written] = recorded["decoder.layers.0.self_attention"]
    assert torch.all(written.triu(1) == 0)


def test_recording_changes_no_output_and_is_undone() -> None:
    model = build_model(SHAPE, 10, 10).eval()
    seen: list[torch.Tensor] = []
    for module in attentions(model):
        module.backend = sdpa
    before = model(SOURCE, TARGET)
    attentions(model)[0].backend = attentions(build_model(SHAPE, 10, 10))[0].backend
    attentions(model)[0].observe = seen.append

    def interrupted() -> None:
        with record_attention(model) as recorded:
            torch.testing.assert_close(model(SOURCE, TARGET), before)
            assert all(len(calls) == 1 for calls in recorded.values())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not seen
    model(SOURCE, TARGET)
    assert len(seen) == 1
    assert all(
        module.backend is sdpa and module.observe is None for module in attentions(model)[1:]
    )


def test_a_pipeline_stands_for_its_model() -> None:
    pipeline = pipeline_of("transformer")
    with record_attention(pipeline) as recorded:
        pipeline.model(SOURCE, TARGET)
    assert all(len(calls) == 1 for calls in recorded.values()) and len(recorded) == 8
    message = "expected a model or what crosshead.load returns, found str"
    with pytest.raises(ConfigError, match=message), record_attention("runs/dates"):  # type: ignore[arg-type]
        pass


STORED = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"
KINDS = [
    ("transformer", "cross"),
    ("transformer", "encoder"),
    ("transformer", "decoder"),
    ("pre-norm, multi-query", "cross"),
    ("pre-norm, multi-query", "decoder"),
    ("windows", "encoder"),
    ("windows", "decoder"),
    ("convolutional", "cross"),
    ("bahdanau", "cross"),
    ("luong", "cross"),
    ("language", "decoder"),
    ("transformer-xl", "decoder"),
    ("encoder", "encoder"),
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load_as(Translator, STORED, "cpu")


def of(name: str, text: str, kind: str | None = None) -> AttentionWeights:
    return attention_weights(pipeline_of(name), text, kind=kind)


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_every_architecture_has_weights_in_all_layers_and_heads(name: str, kind: str) -> None:
    pipeline = pipeline_of(name)
    target = "not to be" if kind != "encoder" and isinstance(pipeline, Translator) else None
    found = attention_weights(pipeline, "to be or", target=target, kind=kind)
    modules = pipeline.bundle.model.attentions()[found.kind]
    assert found.weights.shape == (
        len(modules), modules[0].heads, len(found.queries), len(found.keys),
    )  # fmt: skip
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(found.weights.shape[:-1]))
    assert found.weights.dtype == torch.float32
    if kind != "cross":
        assert found.queries == found.keys
    if kind == "decoder":
        assert torch.all(found.weights.triu(1) == 0)
    if name == "windows":
        far = torch.ones(found.weights.shape[-2:]).tril(-3).bool()
        assert torch.all(found.weights[..., far] == 0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("transformer", "cross"), ("luong", "cross"), ("language", "decoder"), ("encoder", "encoder")],
)
def test_the_kind_looked_at_if_none_is_named(name: str, kind: str) -> None:
    assert of(name, "to be").kind == kind


def test_the_pieces_are_those_that_the_model_reads() -> None:
    pipeline = pipeline_of("transformer")
    cross = attention_weights(pipeline, "to b", target="be")
    assert cross.keys == ["t", "o", " ", "b", "</s>"]
    assert cross.queries == ["b", "e", "</s>"]
    decoder = attention_weights(pipeline, "to b", target="be", kind="decoder")
    assert decoder.queries == decoder.keys == ["<s>", "b", "e"]
    encoder = attention_weights(pipeline, "to b", kind="encoder")
    assert encoder.queries == encoder.keys == cross.keys
    assert of("language", "to\nbe").keys == ["\n", "t", "o", "\n", "b", "e"]
    assert of("encoder", "[MASK]o be").keys == ["\n", "[MASK]", "o", "▁", "b", "e", "\n"]


def test_they_are_what_the_layers_compute() -> None:
    pipeline = pipeline_of("encoder")
    found = attention_weights(pipeline, "to be")
    ids = torch.tensor([[2, *pipeline.tokenizer.encode("to be"), 2]])
    with torch.no_grad(), record_attention(pipeline.bundle.model) as recorded:
        pipeline.bundle.model.features(ids)
    for layer, weights in enumerate(found.weights):
        [expected] = recorded[f"stack.layers.{layer}.attention"]
        torch.testing.assert_close(weights, expected[0])


@pytest.mark.parametrize("name", ["transformer-xl", "language", "windows"])
def test_they_are_those_of_reading_step_by_step(name: str) -> None:
    """Positions of a Transformer-XL see what their segment remembers, and nothing before."""
    pipeline = pipeline_of(name)
    model = pipeline.bundle.model
    text = "to be or not to be"
    if isinstance(pipeline, Translator):
        found = attention_weights(pipeline, text, target=text, kind="decoder")
        source = torch.tensor([[*pipeline.tokenizer.encode(text), 2]])
        ids = [1, *pipeline.tokenizer.encode(text)]
    else:
        found = attention_weights(pipeline, text)
        source, ids = torch.empty(1, 0, dtype=torch.long), [2, *pipeline.tokenizer.encode(text)]
    state = model.start(source)  # type: ignore[attr-defined]
    name_of = {module: name for name, module in model.named_modules()}
    modules = [name_of[module] for module in model.attentions()["decoder"]]
    for place, token in enumerate(ids):
        with torch.no_grad(), record_attention(model) as recorded:
            _, state = model.step(state, torch.tensor([[token]]))  # type: ignore[attr-defined]
        for layer, module in enumerate(modules):
            [step] = recorded[module]
            begin = place + 1 - step.shape[-1]
            row = found.weights[layer, :, place]
            torch.testing.assert_close(row[:, begin : place + 1], step[0, :, 0])
            assert not row[:, :begin].any()
    if isinstance(model, RememberingModel):
        assert found.weights[0, 0, 9, 2] > 0  # of a segment of 4 from 8 on, 6 before it
        assert found.weights[0, 0, 9, 1] == 0


def test_cross_attention_has_a_row_for_each_target_piece(translator: Translator) -> None:
    found = attention_weights(translator, "One two.", target="Eins zwei drei.")
    assert found.keys[-1] == found.queries[-1] == "</s>"
    assert found.weights.shape == (1, 2, len(found.queries), len(found.keys))


def test_without_a_target_it_is_that_of_the_translation(translator: Translator) -> None:
    found = attention_weights(translator, "Seven eight.")
    given = attention_weights(translator, "Seven eight.", target="Sieben acht.")
    assert found.queries == given.queries
    torch.testing.assert_close(found.weights, given.weights)


def test_it_sees_no_white_space_around_lines(translator: Translator) -> None:
    bare = attention_weights(translator, "Seven eight.", target="Sieben acht.")
    spaced = attention_weights(translator, " Seven eight.\t", target="\u3000Sieben acht.\n")
    assert (spaced.keys, spaced.queries) == (bare.keys, bare.queries)
    torch.testing.assert_close(spaced.weights, bare.weights)


def test_cross_attention_is_that_of_decoding_step_by_step(translator: Translator) -> None:
    found = attention_weights(translator, "Ten nine.", target="Zehn neun.")
    bundle = translator.bundle
    source = torch.tensor([[*bundle.source_tokenizer.encode("Ten nine."), 2]])
    target = [1, *bundle.target_tokenizer.encode("Zehn neun.")]
    with torch.inference_mode(), record_attention(translator.model) as recorded:
        state = translator.model.start(source)
        for token in target:
            _, state = translator.model.step(state, torch.tensor([[token]]))
    steps = torch.cat(recorded["decoder.layers.0.cross_attention"], dim=2)
    torch.testing.assert_close(steps[0], found.weights[0])


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("language", "cross", r"'cross' in this model; it has 'decoder'"),
        ("encoder", "decoder", r"it has 'encoder' \(encoder self-attention\)$"),
        ("convolutional", "encoder", r"it has 'cross' \(cross-attention\)$"),
        ("bahdanau", "decoder", r"it has 'cross'"),
        ("transformer", "self", r"it has 'cross' .* and 'encoder' .* and 'decoder' "),
        ("no attention", None, "this model has no attention"),
        ("no attention", "cross", "this model has no attention"),
    ],
)
def test_a_kind_that_is_not_there(name: str, kind: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        of(name, "to be", kind)


def test_texts_that_cannot_be_looked_at(translator: Translator) -> None:
    for pipeline in (translator, pipeline_of("language"), pipeline_of("encoder")):
        with pytest.raises(DataError, match="the text is empty"):
            attention_weights(pipeline, " \t")
    with pytest.raises(DataError, match="the target is empty"):
        attention_weights(translator, "One.", target=" ")
    with pytest.raises(DataError, match="pair 1: its source has 10,001 tokens"):
        attention_weights(translator, "One. " * 2500, target="Eins.")
    with pytest.raises(DataError, match="longer than the model translates in one piece"):
        attention_weights(translator, "One two three four five six. " * 20)
    with pytest.raises(DataError, match="has 25 tokens, but the model reads only 24; shorten it"):
        of("language", "to be or not " + "o" * 11)
    assert len(of("transformer-xl", "to be or not " + "o" * 11).keys) == 25
    with pytest.raises(DataError, match="the text has 26 tokens"):
        of("encoder", "to be or not " + "o" * 11)


@pytest.mark.parametrize("name", ["language", "encoder"])
def test_a_target_is_for_models_that_translate(name: str) -> None:
    with pytest.raises(ConfigError, match="does not translate; leave the target out"):
        attention_weights(pipeline_of(name), "to be", target="to be")


def test_an_encoder_sees_no_target(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="the encoder does not see the target"):
        attention_weights(translator, "One.", target="Eins.", kind="encoder")


def test_the_model_is_as_before() -> None:
    writer = pipeline_of("language")
    assert isinstance(writer, TextGenerator)
    before = writer("to be", length=5)
    attention_weights(writer, "to be")
    assert writer("to be", length=5) == before
    assert all(module.observe is None for module in writer.model.attentions()["decoder"])


def test_every_architecture_is_among_these() -> None:
    assert {name for name, _ in KINDS} == set(CONFIGS) - {"no attention"}


def test_a_model_is_no_pipeline() -> None:
    message = "expected what crosshead.load returns, found Transformer$"
    with pytest.raises(ConfigError, match=message):
        attention_weights(pipeline_of("transformer").model, "to be")  # type: ignore[arg-type]
