"""Over 200 sentences of a trained model in float32: what must not change a translation does not.

A model that was trained leads a search down long paths of confident choices; random weights, which
the tests of each module use, hardly do.
"""

import random
import threading
import time

import pytest
import torch
from torch import Tensor

from crosshead.addons.serving.scheduler import Limits, Scheduler
from crosshead.addons.serving.worker import Result, Sentence
from crosshead.decoding.beam import RunningBatch, beam_search
from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import greedy_search
from crosshead.decoding.settings import BeamRules, DecodeConfig
from crosshead.tasks.loading import load
from crosshead.tasks.translation.engine import Query
from crosshead.tasks.translation.model_engine import model_engines
from crosshead.tasks.translation.translator import Translator
from crosshead.text.batching import Batch, Example, collate
from crosshead.text.synthetic import DatePairs, date_pairs
from crosshead.text.tokenizers import token_ids
from crosshead.training.run import train
from crosshead.vocabulary import BOS, EOS, PAD, UNK
from tests.parameters import mostly_slow
from tests.recipe.composing import new_recipe

SPECIALS = Specials(BOS, EOS, (PAD, BOS, UNK))
GREEDY, BEAM = DecodeConfig(beam=1), DecodeConfig(beam=4)
SENTENCES, BATCH, EXTRA = 200, 64, 10
SMALLER = [
    "decoder_layers=1", "d_model=64", "d_ff=128", "train.batch_tokens=768", "warmup=70",
    "max_updates=200", "max_minutes=60.0", "valid_every=1000", "average=1", "keep_last=1",
    "precision=float32", "threads=1", "device=cpu",
]  # fmt: skip


@pytest.fixture(scope="module")
def pairs() -> DatePairs:
    pytest.importorskip("babel", reason="the dates are made by Babel")
    return date_pairs(seed=1, size=6000)


@pytest.fixture(scope="module")
def translator(pairs: DatePairs, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """The quickstart's model, smaller, after seconds of training: mostly right, seldom sure."""
    folder = tmp_path_factory.mktemp("dates")
    data: dict[str, str] = {}
    for prefix, part in (("", pairs.train), ("valid_", pairs.valid[:20])):
        for side, index in (("source", 0), ("target", 1)):
            path = folder / f"{prefix}{side}"
            path.write_text("".join(f"{pair[index]}\n" for pair in part), encoding="utf-8")
            data[prefix + side] = str(path)
    train(new_recipe(None, "quickstart", {"data": data}, SMALLER), folder / "out")
    return load(folder / "out", device="cpu", threads=1)


@pytest.fixture(scope="module")
def lines(pairs: DatePairs) -> list[str]:
    return [source for source, _ in pairs.test[:SENTENCES]]


@pytest.fixture(scope="module")
def written(translator: Translator, lines: list[str]) -> Batch:
    """The sentences beside what greedy search, with its cache, makes of them."""
    batch = collate(examples(translator, lines), range(SENTENCES))
    found = greedy_search(translator.model, batch.source, limits(batch), SPECIALS, alpha=0.0)
    outputs = [best[0].tokens for best in found]
    sources = [source for source, _ in examples(translator, lines)]
    return collate(list(zip(sources, outputs, strict=True)), range(SENTENCES))


def examples(translator: Translator, lines: list[str]) -> list[Example]:
    return [(ids, []) for ids in token_ids(translator.bundle.source_tokenizer, lines)]


def limits(batch: Batch) -> Tensor:
    return (batch.source != PAD).sum(dim=1) + EXTRA


def texts(translator: Translator, lines: list[str], decode: DecodeConfig) -> list[str]:
    return [best[0].text for best in translator.translate(lines, decode=decode)]


def test_the_model_is_trained(
    translator: Translator, pairs: DatePairs, lines: list[str], written: Batch
) -> None:
    """Otherwise the others show nothing: it is mostly right, and says something else each time."""
    found = texts(translator, lines, GREEDY)
    wanted = [target for _, target in pairs.test[:SENTENCES]]
    assert sum(a == b for a, b in zip(found, wanted, strict=True)) > 0.5 * SENTENCES
    assert len(set(found)) > 0.9 * SENTENCES
    lengths = (written.target_output != PAD).sum(dim=1)
    assert lengths.max() > 2 * lengths.min()


@torch.inference_mode()
def test_cached_logits_are_those_of_the_whole_forward(
    translator: Translator, written: Batch
) -> None:
    expected = translator.model(written.source, written.target_input)
    state = translator.model.start(written.source)
    steps = []
    for t in range(written.target_input.shape[1]):
        features, state = translator.model.step(state, written.target_input[:, t : t + 1])
        steps.append(translator.model.logits(features))
    there = written.target_output != PAD
    torch.testing.assert_close(
        torch.stack(steps, dim=1)[there], expected[there], rtol=1e-4, atol=1e-4
    )


@torch.inference_mode()
def test_greedy_search_with_a_cache_is_greedy_search_without(
    translator: Translator, written: Batch
) -> None:
    """Without: the whole prefix through the model again for every token."""
    source, longest = written.source, limits(written)
    prefix = torch.full((SENTENCES, 1), BOS)
    ended = torch.zeros(SENTENCES, dtype=torch.bool)
    while not ended.all():
        logits = translator.model(source, prefix)[:, -1]
        logits[:, list(SPECIALS.forbidden)] = -torch.inf
        token = logits.argmax(dim=-1).masked_fill(ended, PAD)
        prefix = torch.cat((prefix, token[:, None]), dim=1)
        ended |= (token == EOS) | (prefix.shape[1] > longest)
    outputs = [[i for i in row if i not in (PAD, EOS)] for row in prefix[:, 1:].tolist()]
    expected = [[i for i in row if i not in (PAD, EOS)] for row in written.target_output.tolist()]
    assert outputs == expected


@torch.inference_mode()
def test_a_beam_of_one_is_greedy_search(translator: Translator, written: Batch) -> None:
    given = (translator.model, written.source, limits(written), SPECIALS)
    greedy = greedy_search(*given, 0.6)
    beam = beam_search(*given, 1, 0.6, 1)
    assert [best[0].tokens for best in beam] == [best[0].tokens for best in greedy]
    scores = [torch.tensor([best[0].score for best in found]) for found in (beam, greedy)]
    torch.testing.assert_close(*scores)


@pytest.mark.parametrize("decode", mostly_slow([GREEDY, BEAM], [BEAM]))
def test_a_sentence_alone_is_a_sentence_among_64(
    translator: Translator, lines: list[str], decode: DecodeConfig
) -> None:
    alone = [texts(translator, [line], decode)[0] for line in lines[::2]]
    roomy = decode.model_copy(update={"batch_tokens": 100_000})
    together = [
        text
        for first in range(0, SENTENCES, BATCH)
        for text in texts(translator, lines[first : first + BATCH], roomy)
    ]
    assert together[::2] == alone


@pytest.mark.parametrize("decode", [GREEDY, BEAM], ids=["greedy", "beam of 4"])
def test_the_order_of_lines_does_not_matter(
    translator: Translator, lines: list[str], decode: DecodeConfig
) -> None:
    """Nor does the budget that cuts them into batches."""
    expected = texts(translator, lines, decode)
    order = torch.randperm(SENTENCES, generator=torch.Generator().manual_seed(1)).tolist()
    small = decode.model_copy(update={"batch_tokens": 256})
    found = texts(translator, [lines[n] for n in order], small)
    assert found == [expected[n] for n in order]


@pytest.mark.parametrize("beam", mostly_slow([1, 4], [4]))
@torch.inference_mode()
def test_a_sentence_alone_is_a_sentence_among_others_that_come_and_go(
    translator: Translator, lines: list[str], beam: int
) -> None:
    """Random arrivals at every step, at most 24 sentences at once: all hypotheses are equal."""
    ids = [source for source, _ in examples(translator, lines)]
    longest = [len(each) + 1 + EXTRA for each in ids]
    model, batch = translator.model, RunningBatch(translator.model, SPECIALS, BeamRules(beam, 0.6))

    def first_step(rows: list[int]) -> tuple[Tensor, object]:
        source = collate([(ids[row], ()) for row in rows], range(len(rows))).source
        return model.step(model.start(source), torch.full((len(rows), 1), BOS))

    found, waiting, choose, most = {}, list(range(SENTENCES)), random.Random(1), 0
    choose.shuffle(waiting)
    while waiting or len(batch):
        new = [
            waiting.pop() for _ in range(min(choose.randint(0, 5), 24 - len(batch), len(waiting)))
        ]
        if new:
            limit = torch.tensor([longest[row] for row in new])
            found.update(batch.add(first_step(new), limit, new, [beam] * len(new)))
        most = max(most, len(batch))
        if len(batch):
            found.update(batch.take(model.step(batch.state, batch.last)))
    assert most > 12
    for row in range(0, SENTENCES, 2):
        source = collate([(ids[row], ())], [0]).source
        given = model, source, torch.tensor([longest[row]]), SPECIALS, beam, 0.6, beam
        [alone] = beam_search(*given)
        assert [h.tokens for h in found[row]] == [h.tokens for h in alone]
        scores = [torch.tensor([h.score for h in each]) for each in (found[row], alone)]
        torch.testing.assert_close(*scores, rtol=0, atol=1e-5)


@pytest.mark.parametrize("count", mostly_slow([60, 1000], [60]))
def test_a_sentence_of_a_busy_scheduler_is_a_sentence_alone(
    translator: Translator, pairs: DatePairs, count: int
) -> None:
    """Random arrivals from three clients, with beams of 4 and 1, on two threads."""
    make, choose = model_engines(translator), random.Random(1)
    engines = [make(4), make(1)]
    sources = [source for source, _ in (*pairs.test, *pairs.train)][:count]
    results: dict[int, Result] = {}
    answered = threading.Semaphore(0)

    def sentence(number: int, ids: list[int]) -> Sentence:
        def done(result: Result) -> None:
            results[number] = result
            answered.release()

        end = time.monotonic() + 600
        return Sentence(engines[number % 2], ids, len(ids) + 1 + EXTRA, 1, end, done)

    every = [sentence(n, ids) for n, (ids, _) in enumerate(examples(translator, sources))]
    scheduler, most = Scheduler(2, Limits(sentences=24)), 0
    waiting = list(every)
    while waiting:
        group = [waiting.pop() for _ in range(min(choose.randint(1, 5), len(waiting)))]
        scheduler.submit(f"client {choose.randrange(3)}", group)
        time.sleep(choose.expovariate(1000))
        most = max(most, scheduler.running)
    for _ in every:
        most = max(most, scheduler.running)
        assert answered.acquire(timeout=120)
    scheduler.stop(10)
    assert most > 12
    for number, each in enumerate(every):
        batch = each.engine.batch()
        found = batch.add([Query(0, each.ids, each.max_length, 1)])
        while len(batch):
            found |= batch.step()
        [alone], together = found[0], results[number]
        assert isinstance(together, list) and together[0].tokens == alone.tokens
        assert together[0].score == pytest.approx(alone.score, rel=0, abs=1e-5)
