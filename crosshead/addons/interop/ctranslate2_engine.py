"""The engine that translates with CTranslate2: whole batches of the sentences of all requests."""

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.ctranslate2 import (
    BATCHES,
    CTRANSLATE2,
    arguments,
    pieces_of,
    scored_batch,
    write_model,
)
from crosshead.addons.interop.ctranslate2_layers import library
from crosshead.addons.interop.export import check_libraries, number_format, usual_search
from crosshead.addons.interop.formats import check_expressible
from crosshead.bundle.text_bundle import TextBundle
from crosshead.decoding.beams import Finished
from crosshead.decoding.candidates import Hypothesis, length_penalty
from crosshead.errors import ConfigError
from crosshead.tasks.translation.engine import Engine, ModelEngine, Query, model_engines
from crosshead.tasks.translation.translator import Translator
from crosshead.vocabulary import EOS


def ctranslate2_engines(
    kind: str | None, workers: int
) -> Callable[[Translator], Callable[[int], Engine]]:
    """Return a function that makes the engines of a translator, by their beams."""
    chosen = number_format(CTRANSLATE2, kind)
    check_libraries(CTRANSLATE2, verify=True)

    def engines(translator: Translator) -> Callable[[int], Engine]:
        model = CTranslate2Model(translator.bundle, chosen, workers, translator.device)
        own = model_engines(translator)
        return lambda beam: CTranslate2Engine(model, own(beam))

    return engines


class CTranslate2Model:
    """A bundle's model in CTranslate2."""

    def __init__(self, bundle: TextBundle, kind: str, workers: int, device: torch.device) -> None:
        self.bundle = check_expressible(bundle, CTRANSLATE2)
        self._penalty = usual_search(bundle).length_penalty
        target = bundle.target_tokenizer
        self._ids = {piece: n for n, piece in enumerate(target.pieces(range(target.vocab_size)))}
        with tempfile.TemporaryDirectory() as scratch:
            write_model(bundle, kind, Path(scratch))
            self._translator: Any = _translator(scratch, device, workers)

    def search(self, sources: list[list[str]], beam: int, max_length: int, n_best: int) -> Any:
        """Return the hypotheses of each source as lists of ids, eos included where it was found."""
        found = self._translator.translate_batch(
            sources,
            **BATCHES,
            **arguments(self.bundle, ForeignSearch(beam, self._penalty, max_length)),
            num_hypotheses=n_best,
            return_end_token=True,
        )
        return [[[self._ids[piece] for piece in each] for each in one.hypotheses] for one in found]

    def log_probs(self, sources: list[list[str]], outputs: list[list[int]]) -> list[list[float]]:
        """Return the log-probability of each token of outputs, and of eos."""
        targets = [pieces_of(self.bundle.target_tokenizer, each) for each in outputs]
        return scored_batch(self._translator, sources, targets)


def _translator(folder: str, device: torch.device, workers: int) -> Any:
    """Return CTranslate2's translator of a model on a device."""
    try:
        return library().Translator(
            folder, device=device.type, device_index=device.index or 0,
            inter_threads=workers, intra_threads=1,
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        if device.type == "cpu":
            raise
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"CTranslate2 cannot compute on the device {device} ({reason}); use `--device cpu`, or "
            "leave out `--engine ctranslate2`"
        ) from None


class CTranslate2Engine:
    """A model in CTranslate2 with the beam of one search."""

    def __init__(self, model: CTranslate2Model, own: ModelEngine) -> None:
        self.model, self.own = model, own

    @property
    def beam(self) -> int:
        """The number of hypotheses of the search."""
        return self.own.beam

    def batch(self) -> "CTranslate2Batch":
        """Return a batch without sentences."""
        return CTranslate2Batch(self)

    def bytes(self, sentences: int, source: int, target: int) -> float:
        """Return the memory of a batch, estimated by that of crosshead's own engine."""
        return self.own.bytes(sentences, source, target)


class CTranslate2Batch:
    """Sentences that CTranslate2 translates at once: they are done when they have joined."""

    def __init__(self, engine: CTranslate2Engine) -> None:
        self.engine = engine

    def __len__(self) -> int:
        return 0

    def add(self, queries: Sequence[Query]) -> Finished:
        """Translate sentences."""
        # With one hypothesis CTranslate2 stops sooner, so sentences that want as many go together.
        results: Finished = {}
        for n_best in {each.n_best for each in queries}:
            results |= self._translated([each for each in queries if each.n_best == n_best])
        return results

    def step(self) -> Finished:
        """Do nothing: every sentence is done."""
        return {}

    def drop(self, numbers: Sequence[int]) -> None:
        """Do nothing: every sentence is done."""

    def _translated(self, queries: Sequence[Query]) -> Finished:
        """Return the hypotheses of sentences that want as many."""
        model, beam, n_best = self.engine.model, self.engine.beam, queries[0].n_best
        sources = [pieces_of(model.bundle.source_tokenizer, each.ids) for each in queries]
        max_length = max(each.max_length for each in queries)
        found = model.search(sources, beam, max_length, n_best)
        for number, query in enumerate(queries):
            # All have the largest limit. Who used more than its own is searched again by itself.
            if max_length > query.max_length <= max(map(len, found[number])):
                [found[number]] = model.search([sources[number]], beam, query.max_length, n_best)
        chosen = [(number, ids) for number, each in enumerate(found) for ids in each]
        outputs = [ids[:-1] if ids[-1:] == [EOS] else ids for _, ids in chosen]
        # Scoring runs the model once more, so it is left out where nobody reads the scores.
        places = [place for place, (number, _) in enumerate(chosen) if queries[number].scored]
        scores = [[math.nan] * len(ids) for _, ids in chosen]
        if places:
            asked = [sources[chosen[place][0]] for place in places]
            found_scores = model.log_probs(asked, [outputs[place] for place in places])
            for place, log_probs in zip(places, found_scores, strict=True):
                scores[place] = log_probs
        results: Finished = {query.number: [] for query in queries}
        for (number, ids), output, log_probs in zip(chosen, outputs, scores, strict=True):
            hypothesis = self._hypothesis(output, log_probs, finished=ids[-1:] == [EOS])
            results[queries[number].number].append(hypothesis)
        return results

    def _hypothesis(self, ids: list[int], log_probs: list[float], *, finished: bool) -> Hypothesis:
        rules = self.engine.own.rules
        kept = log_probs[: len(ids) + finished]
        total = math.fsum(kept)
        penalty = length_penalty(max(1, len(kept)), rules.alpha, rules.offset)
        return Hypothesis(ids, kept, total, total / penalty, finished)
