import dataclasses
import math

import numpy as np
import pytest
import torch

from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.models.language import LanguageConfig
from crosshead.models.registry import build_model
from crosshead.models.text_stack import TextStackConfig
from crosshead.models.transformer_xl import TransformerXLConfig
from crosshead.tasks.language.text_generator import TextGenerator, _Shown
from crosshead.text.streams import Stream, decode_text, encode_text
from crosshead.text.tokenizers import Tokenizer, TokenizerConfig, train_tokenizer
from crosshead.vocabulary import EOS

CONTEXT = 12
TEXT = "to be or not\nto be\n\nthat is the question\n"


LEARNED = LanguageConfig(
    layers=2, d_model=16, d_ff=32, heads=2, dropout=0.0, positions="learned", max_length=CONTEXT
)


def writer_of(tokenizer: Tokenizer, config: TextStackConfig = LEARNED) -> TextGenerator:
    torch.manual_seed(0)
    model = build_model(config, tokenizer.vocab_size, tokenizer.vocab_size).double().eval()
    bundle = TextBundleConfig(
        task="language", model=config, joint_tokenizer=True,
        source_vocabulary=tokenizer.vocab_size, target_vocabulary=tokenizer.vocab_size,
        longest_source=CONTEXT, decode=DecodeConfig(beam=1, sample=True),
    )  # fmt: skip
    return TextGenerator(TextBundle(bundle, model, tokenizer, tokenizer))


@pytest.fixture(scope="module")
def writer() -> TextGenerator:
    return writer_of(train_tokenizer(TokenizerConfig(kind="characters"), TEXT.split("\n")))


def losses(writer: TextGenerator, ids: list[int]) -> list[float]:
    """Of every token but the first, given all before it in a window that begins with the text."""
    with torch.inference_mode():
        logits = writer.model(torch.tensor([ids[:-1]]))
    log_probs = logits.log_softmax(-1)[0]
    return [-float(log_probs[place, index]) for place, index in enumerate(ids[1:])]


def test_the_same_seed_writes_the_same_and_another_does_not(writer: TextGenerator) -> None:
    first = writer("to be", length=40)
    assert first.startswith("to be")
    assert writer("to be", length=40) == first
    other = DecodeConfig(beam=1, sample=True, seed=2)
    assert "".join(writer.write("to be", length=40, decode=other)) != first[5:]
    assert "".join(writer.write("to be", length=40, number=1)) != first[5:]


def test_what_is_written_in_pieces_is_what_is_written_as_a_whole(writer: TextGenerator) -> None:
    pieces = list(writer.write("to be", length=30))
    assert len([piece for piece in pieces if piece]) > 10
    assert "to be" + "".join(pieces) == writer("to be", length=30)


def test_greedy_writing_takes_the_most_probable_token_of_what_is_seen(
    writer: TextGenerator,
) -> None:
    """Also beyond the context, where it goes on from the last half of what it has seen."""
    greedy = DecodeConfig(beam=1)
    written = "".join(writer.write("to", length=30, decode=greedy))
    seen, expected = [EOS, *encode_text(writer.tokenizer, "to").tolist()], []
    forbidden = list(writer.bundle.specials.forbidden)
    while len(expected) < 30:
        if len(seen) >= CONTEXT + 1:
            seen = seen[-(CONTEXT // 2) :]
        with torch.no_grad():
            logits = writer.model(torch.tensor([seen]))[0, -1]
        logits[forbidden] = -math.inf
        expected.append(int(logits.argmax()))
        seen = [*seen, expected[-1]]
    line = [*encode_text(writer.tokenizer, "to").tolist(), *expected]
    assert "to" + written == decode_text(writer.tokenizer, line)


def test_a_beam_writes_what_is_at_least_as_probable(writer: TextGenerator) -> None:
    def log_prob(text: str) -> float:
        return -sum(losses(writer, [EOS, *encode_text(writer.tokenizer, text).tolist()]))

    beam = "".join(writer.write("", length=8, decode=DecodeConfig(beam=4, length_penalty=0.0)))
    greedy = "".join(writer.write("", length=8, decode=DecodeConfig(beam=1)))
    assert log_prob(beam) >= log_prob(greedy) - 1e-9


def test_what_is_no_text_is_refused(writer: TextGenerator) -> None:
    for call in (writer, writer.score):
        with pytest.raises(TypeError, match="expected a text as one string, found list"):
            call(["to be"])  # type: ignore[operator]


def test_it_ends_before_what_it_is_to_stop_at(writer: TextGenerator) -> None:
    whole = "".join(writer.write("to", length=60))
    stop = whole[20:23]
    stopped = "".join(writer.write("to", length=60, stop=stop))
    assert stopped == whole[: whole.index(stop)]
    assert "".join(writer.write("to", length=60, stop="\u2603")) == whole


SNOWY = "to be \u2603 or\n\nnot \u2603 to be\n"


def shown_of(tokenizer: Tokenizer, text: str, stop: str, prompt: str = "") -> list[str]:
    shown = _Shown(tokenizer, stop, after=encode_text(tokenizer, prompt).tolist())
    pieces = []
    for index in encode_text(tokenizer, prompt + text).tolist()[
        len(encode_text(tokenizer, prompt)) :
    ]:
        pieces.append(shown.add(index))
        if shown.ended:
            return pieces
    return [*pieces, shown.rest()]


@pytest.mark.parametrize("kind", ["bpe", "bytes", "characters", "words"])
def test_nothing_of_a_stop_is_shown_wherever_it_is(kind: str) -> None:
    config = TokenizerConfig(kind=kind, vocab_size=275)
    tokenizer = train_tokenizer(config, SNOWY.split("\n"))
    for place in range(len(SNOWY)):
        for size in range(1, 9):
            stop = SNOWY[place : place + size]
            pieces = shown_of(tokenizer, SNOWY, stop)
            assert "".join(pieces) == SNOWY[: SNOWY.index(stop)]
            assert all("\ufffd" not in piece for piece in pieces)
    for size in range(9):
        assert "".join(shown_of(tokenizer, SNOWY, "?" * size)) == SNOWY


@pytest.mark.parametrize("prompt", ["to be", "to be\n", "\ufffd", "a\x1a", "\u2603"])
def test_of_the_prompt_nothing_is_shown_again(prompt: str) -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind="bytes"), ["a"])
    assert "".join(shown_of(tokenizer, SNOWY, "", prompt)) == SNOWY
    assert "".join(shown_of(tokenizer, SNOWY, "or", prompt)) == SNOWY[: SNOWY.index("or")]


def test_what_is_shown_is_shown_as_soon_as_it_is_sure() -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind="bytes"), ["a"])
    shown = _Shown(tokenizer, "cd", after=[])
    pieces = [shown.add(index) for index in tokenizer.encode("ab\u2603ce")]
    assert pieces == ["", "a", "", "", "b", "\u2603", "c"]
    assert shown.rest() == "e"


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe"])
def test_scores_are_those_of_the_model_window_by_window(kind: str) -> None:
    config = TokenizerConfig(kind=kind, vocab_size=300)
    writer = writer_of(train_tokenizer(config, TEXT.split("\n")))
    ids = encode_text(writer.tokenizer, TEXT).tolist()
    found = writer.score(TEXT)
    assert sum(tokens for _, tokens, _ in found.windows) == len(ids) - 1
    first = 1 if ids[0] == EOS else len(writer.tokenizer.decode(ids[:1]))
    assert sum(characters for *_, characters in found.windows) == len(TEXT) - first
    for number, (loss, tokens, _) in enumerate(found.windows):
        window = ids[number * CONTEXT : number * CONTEXT + tokens + 1]
        assert loss == pytest.approx(sum(losses(writer, window)), rel=1e-5)


@pytest.mark.parametrize("stride", [1, 5, CONTEXT])
def test_a_stride_gives_every_token_more_to_see(writer: TextGenerator, stride: int) -> None:
    ids = encode_text(writer.tokenizer, TEXT).tolist()
    found = writer.score_ids(Stream(np.array(ids), len(TEXT)), stride)
    expected = []
    for place in range(len(ids) - 1):
        end = min(len(ids) - 1, place // stride * stride + stride)
        begin = max(0, place // stride * stride + stride - CONTEXT)
        expected.append(losses(writer, ids[begin : end + 1])[place - begin])
    assert sum(loss for loss, *_ in found.windows) == pytest.approx(sum(expected), rel=1e-6)
    assert f"stride:{stride}" in found.how


@pytest.mark.parametrize(("budget", "rows"), [(5, 1), (2 * CONTEXT, 2), (4096, 4)])
def test_as_many_windows_are_scored_at_once_as_the_bundle_says(
    writer: TextGenerator, budget: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least one: a window is not to be split."""
    expected = writer.score(TEXT).windows
    decode = writer.bundle.config.decode.model_copy(update={"batch_tokens": budget})
    config = writer.bundle.config.model_copy(update={"decode": decode})
    other, sizes = TextGenerator(dataclasses.replace(writer.bundle, config=config)), []
    forward = writer.model.forward

    def watched(tokens: torch.Tensor) -> torch.Tensor:
        sizes.append(len(tokens))
        found: torch.Tensor = forward(tokens)
        return found

    monkeypatch.setattr(writer.model, "forward", watched)
    found = other.score(TEXT).windows
    assert max(sizes) == rows and sum(sizes) == len(found)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(("kind", "unknown"), [("words", 2), ("characters", 6), ("bytes", 0)])
def test_what_is_unknown_is_counted_as_it_stands(kind: str, unknown: int) -> None:
    writer = writer_of(train_tokenizer(TokenizerConfig(kind=kind), TEXT.split("\n")))
    text = TEXT + "to QQQQQ be\nZ"
    found = writer.score(text)
    assert found.unknown == unknown
    first = 1 if kind != "words" else len("to")
    assert sum(characters for *_, characters in found.windows) == len(text) - first
    assert writer.score(TEXT).unknown == 0


@pytest.mark.parametrize("stride", [0, -1, CONTEXT + 1])
def test_a_stride_that_cannot_be_is_refused(writer: TextGenerator, stride: int) -> None:
    with pytest.raises(ConfigError, match=f"stride from 1 to {CONTEXT}, found {stride}"):
        writer.score(TEXT, stride=stride)


def test_nothing_to_write_is_refused(writer: TextGenerator) -> None:
    with pytest.raises(ConfigError, match="1 or more, found 0"):
        writer("to", length=0)


def remembering(memory: int) -> TextGenerator:
    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), TEXT.split("\n"))
    config = TransformerXLConfig(
        layers=2, d_model=16, d_ff=32, heads=2, dropout=0.0, segment=5, memory=memory
    )
    return writer_of(tokenizer, config=config)


def test_a_model_that_remembers_reads_a_text_in_one_go() -> None:
    """With a memory of everything that is one pass; of less it is another."""
    writer = remembering(memory=200)
    ids = encode_text(writer.tokenizer, TEXT).tolist()
    found = writer.score(TEXT)
    assert sum(tokens for _, tokens, _ in found.windows) == len(ids) - 1
    total = sum(loss for loss, *_ in found.windows)
    assert total == pytest.approx(sum(losses(writer, ids)), rel=1e-5)
    short = sum(loss for loss, *_ in writer.score(TEXT, memory=2).windows)
    assert short != pytest.approx(total, rel=1e-5)
    assert sum(loss for loss, *_ in remembering(memory=2).score(TEXT).windows) == pytest.approx(
        short, rel=1e-5
    )
    assert "memory:2" in writer.score(TEXT, memory=2).how


def test_a_model_that_remembers_writes_on_and_on() -> None:
    writer = remembering(memory=4)
    greedy = DecodeConfig(beam=1)
    written = "".join(writer.write("to", length=40, decode=greedy))
    ids = [EOS, *encode_text(writer.tokenizer, "to").tolist()]
    forbidden = list(writer.bundle.specials.forbidden)
    for _ in range(40):
        with torch.no_grad():
            logits = writer.model(torch.tensor([ids]))[0, -1]
        logits[forbidden] = -math.inf
        ids.append(int(logits.argmax()))
    assert "to" + written == decode_text(writer.tokenizer, ids[1:])


def test_a_memory_that_is_not_there_is_refused(writer: TextGenerator) -> None:
    with pytest.raises(ConfigError, match="has no memory; give a stride"):
        writer.score(TEXT, memory=4)
    with pytest.raises(ConfigError, match="memory and stride"):
        remembering(4).score(TEXT, stride=2, memory=4)
    with pytest.raises(ConfigError, match="a memory of 0 or more, found -1"):
        remembering(4).score(TEXT, memory=-1)
