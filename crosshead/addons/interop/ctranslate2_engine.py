"""The engine that translates with CTranslate2: whole batches of the sentences of all requests."""

import math
import tempfile
from collections.abc import Sequence
from functools import partial
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
from crosshead.addons.interop.export import (
    check_libraries,
    missing_libraries,
    number_format,
    usual_search,
)
from crosshead.addons.interop.formats import check_expressible
from crosshead.bundle.text_bundle import TextBundle
from crosshead.decoding.beams import Finished
from crosshead.decoding.candidates import Hypothesis, length_penalty
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.models.ensemble import Ensemble
from crosshead.tasks.translation.engine import (
    Engines,
    MakesEngines,
    ModelEngine,
    Query,
    model_engines,
)
from crosshead.tasks.translation.translator import Translator
from crosshead.vocabulary import EOS


class CTranslate2Engines:
    """Makes the engines of translators in CTranslate2."""

    def suits(self, translator: Translator, decode: DecodeConfig) -> bool:
        """Return whether CTranslate2 finds the translations of a search that crosshead finds."""
        is_same = decode.beam == 1 or (
            decode.stop == "count" and decode.length_penalty > 0 and decode.length_offset == 0
        )
        return (
            is_same
            and not decode.sample
            and not isinstance(translator.model, Ensemble)
            and translator.device.type == "cpu"
            and next(translator.model.parameters()).dtype == torch.float32
            and not missing_libraries(CTRANSLATE2, verify=True)
            and not CTRANSLATE2.refusals(translator.bundle)
        )

    def __call__(self, kind: str | None, workers: int) -> MakesEngines:
        """Return what makes engines with a number format."""
        check_libraries(CTRANSLATE2, verify=True)
        return partial(_engines, number_format(CTRANSLATE2, kind), workers)


ctranslate2_engines = CTranslate2Engines()
"""The entry point of the engine."""


def _engines(
    kind: str, workers: int, translator: Translator, decode: DecodeConfig | None = None
) -> Engines:
    decode = decode or translator.bundle.config.decode
    if decode.sample or isinstance(translator.model, Ensemble):
        what = "samples" if decode.sample else "ensembles"
        raise ConfigError(f"CTranslate2 computes no {what}; leave out `--engine ctranslate2`")
    penalty = usual_search(translator.bundle, decode).length_penalty
    model = CTranslate2Model(translator.bundle, kind, workers, translator.device, penalty)
    own = model_engines(translator, decode)
    return lambda beam: CTranslate2Engine(model, own(beam))


class CTranslate2Model:
    """A bundle's model in CTranslate2, with a length penalty."""

    def __init__(
        self, bundle: TextBundle, kind: str, workers: int, device: torch.device, penalty: float
    ) -> None:
        self.bundle, self.penalty = check_expressible(bundle, CTRANSLATE2), penalty
        target = bundle.target_tokenizer
        self._ids = {piece: n for n, piece in enumerate(target.pieces(range(target.vocab_size)))}
        with tempfile.TemporaryDirectory() as scratch:
            write_model(bundle, kind, Path(scratch))
            self._translator: Any = _translator(scratch, device, workers)

    def search(
        self, sources: list[list[str]], beam: int, max_length: int, n_best: int,
        suppressed: list[list[str]] | None,
    ) -> list[list[tuple[list[int], float]]]:  # fmt: skip
        """Return the hypotheses of each source: ids, with eos where it was found, and scores."""
        found = self._translator.translate_batch(
            sources,
            **BATCHES,
            **arguments(self.bundle, ForeignSearch(beam, self.penalty, max_length)),
            num_hypotheses=n_best,
            return_end_token=True,
            return_scores=True,
            suppress_sequences=suppressed,
        )
        return [
            [
                ([self._ids[piece] for piece in each], score)
                for each, score in zip(one.hypotheses, one.scores, strict=True)
            ]
            for one in found
        ]

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
        marks = set(self.engine.model.bundle.marks)
        groups: dict[tuple[int, bool], list[Query]] = {}
        for each in queries:
            groups.setdefault((each.n_best, not marks.isdisjoint(each.ids)), []).append(each)
        results: Finished = {}
        for (_, has_marks), group in groups.items():
            results |= self._translated(group, [] if has_marks else sorted(marks))
        return results

    def step(self) -> Finished:
        """Do nothing: every sentence is done."""
        return {}

    def drop(self, numbers: Sequence[int]) -> None:
        """Do nothing: every sentence is done."""

    def _translated(self, queries: Sequence[Query], never: Sequence[int]) -> Finished:
        """Return the hypotheses of sentences that want as many. Some tokens are never written."""
        model, beam, n_best = self.engine.model, self.engine.beam, queries[0].n_best
        sources = [pieces_of(model.bundle.source_tokenizer, each.ids) for each in queries]
        max_length = max(each.max_length for each in queries)
        suppressed = [[piece] for piece in pieces_of(model.bundle.target_tokenizer, never)]
        search = partial(model.search, suppressed=suppressed or None)
        found = search(sources, beam, max_length, n_best)
        for number, query in enumerate(queries):
            # All have the largest limit. Who used more than its own is searched again by itself.
            if max_length > query.max_length <= max(len(ids) for ids, _ in found[number]):
                [found[number]] = search([sources[number]], beam, query.max_length, n_best)
        results: Finished = {
            query.number: [self._hypothesis(*each) for each in hypotheses]
            for query, hypotheses in zip(queries, found, strict=True)
        }
        # This runs the model once more, so it is left out where nobody reads the values.
        asked = [
            (source, hypothesis)
            for query, source in zip(queries, sources, strict=True)
            for hypothesis in results[query.number]
            if query.scored
        ]
        if asked:
            log_probs = model.log_probs([s for s, _ in asked], [each.tokens for _, each in asked])
            for (_, hypothesis), values in zip(asked, log_probs, strict=True):
                hypothesis.token_log_probs[:] = values[: len(hypothesis.token_log_probs)]
        return results

    def _hypothesis(self, ids: list[int], score: float) -> Hypothesis:
        """Return a hypothesis of CTranslate2's ids and score."""
        rules, length = self.engine.own.rules, max(1, len(ids))
        log_prob = score * length**self.engine.model.penalty
        finished = ids[-1:] == [EOS]
        return Hypothesis(
            ids[:-1] if finished else ids,
            [math.nan] * len(ids),
            log_prob,
            log_prob / length_penalty(length, rules.alpha, rules.offset),
            finished,
        )
