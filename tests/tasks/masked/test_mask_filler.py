import dataclasses
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.errors import ConfigError, DataError
from crosshead.models.encoder_only import EncoderConfig
from crosshead.models.registry import build_model
from crosshead.tasks.masked.mask_filler import MARK, MaskFiller, masked_windows
from crosshead.text.streams import SHARE, Stream
from crosshead.text.tokenizers import Tokenizer, TokenizerConfig, train_tokenizer
from crosshead.vocabulary import EOS, MASK, PAD, UNK

CONTEXT = 16
TEXT = "to be or not\nto be\n\nthat is the question\n" * 8
CONFIG = EncoderConfig(layers=2, d_model=16, d_ff=32, heads=2, dropout=0.0)


def filler_of(tokenizer: Tokenizer, context: int = CONTEXT) -> MaskFiller:
    torch.manual_seed(0)
    size = tokenizer.vocab_size
    model = build_model(CONFIG, size, size).double().eval()
    config = TextBundleConfig(
        task="masked", model=CONFIG, joint_tokenizer=True, source_vocabulary=size,
        target_vocabulary=size, longest_source=context,
    )  # fmt: skip
    return MaskFiller(TextBundle(config, model, tokenizer, tokenizer))


@pytest.fixture(scope="module")
def filler() -> MaskFiller:
    return filler_of(train_tokenizer(TokenizerConfig(kind="characters"), TEXT.split("\n")))


def chances(filler: MaskFiller, ids: list[int]) -> torch.Tensor:
    """Of the tokens that may stand anywhere, at each position."""
    with torch.no_grad():
        logits = filler.model(torch.tensor([ids]))[0].float()
    logits[:, [PAD, MASK, UNK]] = -torch.inf
    return logits.softmax(dim=-1)


def test_one_mark_is_filled_with_the_most_probable_token(filler: MaskFiller) -> None:
    encode = filler.tokenizer.encode
    ids = [EOS, *encode("to "), MASK, *encode("e or"), EOS]
    [expected] = chances(filler, ids)[[ids.index(MASK)]]
    found = filler.fill("to [MASK]e or", top=3)
    best = expected.topk(3)
    [candidates] = found.candidates
    assert [each.probability for each in candidates] == pytest.approx(best.values.tolist())
    texts = ["\n" if i == EOS else filler.tokenizer.decode([i]) for i in best.indices.tolist()]
    assert [each.piece for each in candidates] == [each.replace(" ", "\u2581") for each in texts]
    assert found.text == f"to {texts[0]}e or" == filler("to [MASK]e or")


def test_the_surest_mark_is_filled_first_and_the_other_in_its_light(filler: MaskFiller) -> None:
    encode = filler.tokenizer.encode
    ids = [EOS, MASK, *encode("o b"), MASK, EOS]
    places = [1, 5]
    first = chances(filler, ids)[places]
    surest = int(first.max(dim=1).values.argmax())
    ids[places[surest]] = int(first[surest].argmax())
    second = chances(filler, ids)[places[1 - surest]]
    found = filler.fill("[MASK]o b[MASK]").candidates
    assert found[surest][0].probability == pytest.approx(float(first[surest].max()))
    assert found[1 - surest][0].probability == pytest.approx(float(second.max()))


def test_marks_may_stand_in_several_lines(filler: MaskFiller) -> None:
    text = filler("t[MASK]\nb[MASK]")
    assert text.startswith("t") and "b" in text and "[MASK]" not in text


KINDS = ["bpe", "unigram", "words", "characters", "bytes"]


@pytest.fixture(scope="module", params=KINDS)
def of_kind(request: pytest.FixtureRequest) -> MaskFiller:
    """One of each kind of tokenizer, with room for any text of these tests."""
    size = {"bpe": 290, "unigram": 275}.get(request.param)
    config = TokenizerConfig(kind=request.param, vocab_size=size)
    return filler_of(train_tokenizer(config, ["to  be", *TEXT.split("\n")]), context=400)


WORD = st.sampled_from(
    [MARK, "to", "be", "zebras", "", "q\u2603", "\u2581", "\x1a", "0", "[", "\t"]
)


@settings(max_examples=40)
@given(lines=st.lists(st.lists(WORD, min_size=1, max_size=4), max_size=2), joined=st.booleans())
def test_around_the_marks_the_text_is_as_it_was(
    of_kind: MaskFiller, lines: list[list[str]], joined: bool
) -> None:
    """Also what the tokenizer does not know. A space before a mark may be part of a piece."""
    kind = of_kind.tokenizer.kind
    between = "" if joined and kind != "words" else " "
    text = "\n".join(between.join(line) for line in [*lines, [MARK, "thee", MARK]])
    found = of_kind.fill(text)
    parts, pieces = text.split(MARK), [each[0].piece for each in found.candidates]
    assert len(pieces) == len(parts) - 1
    if kind in ("words", "characters"):
        spoken = [*(piece.replace("\u2581", " ") for piece in pieces), ""]
        assert found.text == "".join(p + s for p, s in zip(parts, spoken, strict=True))
    if kind in ("bpe", "unigram"):
        parts[:-1] = [part.removesuffix(" ") for part in parts[:-1]]
    assert re.fullmatch(".*".join(map(re.escape, parts)), found.text, re.DOTALL)


def test_no_control_token_is_a_candidate_and_every_other_is(of_kind: MaskFiller) -> None:
    tokenizer = of_kind.tokenizer
    [candidates] = of_kind.fill("to [MASK] or", top=10_000).candidates
    pieces = {each.piece for each in candidates}
    assert not pieces & {"<pad>", "<s>", "</s>", "<unk>"} and "\n" in pieces
    assert len(candidates) == tokenizer.vocab_size - 3 - len(tokenizer.line_breaks)
    assert math.fsum(each.probability for each in candidates) == pytest.approx(1, abs=1e-4)


def test_what_cannot_be_filled(filler: MaskFiller) -> None:
    with pytest.raises(ConfigError, match=r"text has no \[MASK\]"):
        filler.fill("to be")
    with pytest.raises(ConfigError, match="1 or more, found 0"):
        filler.fill("to [MASK]", top=0)
    with pytest.raises(DataError, match="has 23 tokens, but the model reads at most 16"):
        filler.fill("to be or not to be to[MASK]"[:20] + "[MASK]")
    with pytest.raises(TypeError, match="expected a text as one string, found list"):
        filler.fill(["to [MASK]"])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe"])
def test_scores_are_those_of_hidden_tokens_alone(kind: str) -> None:
    """Written out: each window by itself, its masked tokens by the logits at their places."""
    config = TokenizerConfig(kind=kind, vocab_size=290 if kind == "bpe" else None)
    filler = filler_of(train_tokenizer(config, TEXT.split("\n")))
    stream = Stream.of(filler.tokenizer, TEXT)
    scored = filler.score(TEXT)
    windows = masked_windows(stream, CONTEXT, filler.tokenizer.vocab_size)
    assert len(scored.windows) == len(windows.lengths)
    for row, (nats, tokens, hits) in enumerate(scored.windows):
        batch = windows.collate([row])
        with torch.inference_mode():
            log_probs = filler.model(batch.inputs[0])[0].float().log_softmax(dim=-1)
        wanted = [(at, index) for at, index in enumerate(batch.target_output[0]) if index != PAD]
        assert tokens == len(wanted) == max(1, round(SHARE * int(windows.lengths[row, 0])))
        assert nats == pytest.approx(-math.fsum(log_probs[at, index] for at, index in wanted))
        assert hits == sum(int(log_probs[at].argmax()) == index for at, index in wanted)


@pytest.mark.parametrize(("budget", "rows"), [(5, 1), (2 * CONTEXT, 2)])
def test_as_many_windows_are_scored_at_once_as_the_bundle_says(
    filler: MaskFiller, budget: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least one: a window is not to be split."""
    expected = filler.score(TEXT).windows
    decode = filler.bundle.config.decode.model_copy(update={"batch_tokens": budget})
    config = filler.bundle.config.model_copy(update={"decode": decode})
    other, sizes = MaskFiller(dataclasses.replace(filler.bundle, config=config)), []
    forward = filler.model.forward

    def watched(tokens: torch.Tensor) -> torch.Tensor:
        sizes.append(len(tokens))
        found: torch.Tensor = forward(tokens)
        return found

    monkeypatch.setattr(filler.model, "forward", watched)
    found = other.score(TEXT).windows
    assert max(sizes) == rows and sum(sizes) == len(found)
    for one, another in zip(found, expected, strict=True):
        assert one == pytest.approx(another)
