"""Models that CTranslate2 has loaded, and those that are stored beside a bundle.

Nothing here needs PyTorch, so that a text is translated without the seconds of its import.
"""

import importlib
import logging
import math
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from crosshead.bundle.config_file import FileChecksum, Manifest
from crosshead.bundle.places import ENGINES
from crosshead.bundle.texts import BundleState, TextParts
from crosshead.config import Config, validate
from crosshead.decoding.hypotheses import Finished, Hypothesis
from crosshead.decoding.settings import DecodeConfig, length_penalty
from crosshead.errors import UserError
from crosshead.system.processor import saturates_int8
from crosshead.system.stored import LARGEST_CONFIG, read_metadata
from crosshead.tasks.translation.engine import Query, search_with
from crosshead.tasks.translation.line_translator import MostPositions
from crosshead.text.placing import in_both_directions
from crosshead.text.symbols import WordTokenizer
from crosshead.text.tokenizers import Tokenizer
from crosshead.version import __version__
from crosshead.vocabulary import EOS

logger = logging.getLogger(__name__)

NAME, RECORD = "ctranslate2", "stored.json"
"""The name of the engine, and the file that says what is in the folder of a stored model."""

STORED = f"{ENGINES}/{NAME}"
"""The folder of a stored model in that of its bundle."""

IGNORED = ".gitignore"
"""The file that keeps a stored model out of a repository."""

MOST_TOKENS = 1024
"""The largest number of tokens that CTranslate2 computes at once, padding counted."""

BATCHES = {"max_batch_size": MOST_TOKENS, "batch_type": "tokens"}


def library() -> Any:
    """Import CTranslate2, and let it log errors only.

    On some processors, CTranslate2's choice of oneDNN gives wrong products in int8
    (`saturates_int8`). `CT2_USE_MKL` makes it take MKL there, unless the environment has a value.
    CTranslate2 reads it when it is imported. If the caller has imported it before, a warning says
    so.
    """
    if saturates_int8() and "CT2_USE_MKL" not in os.environ:
        if "ctranslate2" in sys.modules:
            logger.warning(
                "CTranslate2 multiplies bytes inexactly on this processor, and was imported "
                "already; set CT2_USE_MKL=1 before the program starts"
            )
        os.environ["CT2_USE_MKL"] = "1"
    found = importlib.import_module("ctranslate2")
    found.set_log_level(logging.ERROR)
    return found


def pieces_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return the pieces of ids, in the spelling of the vocabulary."""
    return tokenizer.pieces([int(index) for index in ids])


def scored_batch(engine: Any, *sides: Sequence[list[str]]) -> list[list[float]]:
    """Return the log-probability of each token of texts, or of targets after sources."""
    return [each.log_probs for each in engine.score_batch(*sides, max_input_length=0, **BATCHES)]


def searches_alike(decode: DecodeConfig, target: Tokenizer) -> bool:
    """Return whether a search of CTranslate2 with these settings finds the same.

    It gives the probability of unknown words to other words, and crosshead does not.
    """
    is_same = decode.stop == "count" and decode.length_penalty > 0 and decode.length_offset == 0
    is_sure = not decode.sample and not isinstance(target, WordTokenizer)
    return is_sure and (decode.beam == 1 or is_same)


class CTranslate2Model:
    """A translation model that CTranslate2 has loaded.

    Its attention is that of the head that guided alignment has trained, or the mean of the heads in
    its layer.
    """

    def __init__(self, parts: TextParts, translator: Any) -> None:
        self.parts, self._translator = parts, translator
        target = parts.target_tokenizer
        self._ids = {piece: n for n, piece in enumerate(target.pieces(range(target.vocab_size)))}

    def search(
        self, decode: DecodeConfig, penalty: float, suppressed: list[list[str]] | None,
        sources: list[list[str]], max_length: int, n_best: int,
    ) -> list[list[tuple[list[int], float]]]:  # fmt: skip
        """Return the hypotheses of each source: ids, with eos where it was found, and scores."""
        found = self._translator.translate_batch(
            sources,
            **BATCHES | {"max_batch_size": min(MOST_TOKENS, decode.batch_tokens)},
            beam_size=decode.beam,
            length_penalty=penalty,
            max_decoding_length=max_length,
            min_decoding_length=decode.min_length,
            max_input_length=0,  # no limit
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
        targets = [pieces_of(self.parts.target_tokenizer, each) for each in outputs]
        return scored_batch(self._translator, sources, targets)

    def of(self, examples: Sequence[tuple[list[int], list[int]]]) -> list[np.ndarray]:
        """Return the weight of each source token for each target token, "T S" for each pair."""
        found = self._translator.translate_batch(
            [pieces_of(self.parts.source_tokenizer, source) for source, _ in examples],
            [pieces_of(self.parts.target_tokenizer, target) for _, target in examples],
            **BATCHES,
            beam_size=1,
            max_decoding_length=1 + max(len(target) for _, target in examples),
            max_input_length=0,
            return_attention=True,
        )
        weights = (np.array(each.attention[0], np.float32) for each in found)
        return [
            in_both_directions(each[: len(target), : len(source)])
            for each, (source, target) in zip(weights, examples, strict=True)
        ]


class CTranslate2Batch:
    """Sentences that CTranslate2 translates at once: they are done when they have joined."""

    def __init__(self, model: CTranslate2Model, penalty: float, decode: DecodeConfig) -> None:
        self.model, self.penalty, self.decode = model, penalty, decode

    def __len__(self) -> int:
        return 0

    def add(self, queries: Sequence[Query]) -> Finished:
        """Translate sentences."""
        # With one hypothesis CTranslate2 stops sooner, so sentences that want as many go together.
        # It may write a mark twice, so of sentences with marks the whole beam is looked through.
        marks = set(self.model.parts.marks)
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
        model, n_best = self.model, queries[0].n_best
        sources = [pieces_of(model.parts.source_tokenizer, each.ids) for each in queries]
        max_length = max(each.max_length for each in queries)
        suppressed = [[piece] for piece in pieces_of(model.parts.target_tokenizer, never)]
        search = partial(model.search, self.decode, self.penalty, suppressed or None)
        marks, beam = set(model.parts.marks), self.decode.beam
        count = beam if marks and not never else n_best
        found = search(sources, max_length, count)
        # All have the largest limit. Those that reach their own are searched again with it, and
        # with the whole beam, because a finished hypothesis is better than one that was cut off.
        limited: dict[int, list[int]] = {}
        for number, query in enumerate(queries):
            longest = max(len(ids) for ids, _ in found[number])
            if longest >= query.max_length and (count < beam or max_length > query.max_length):
                limited.setdefault(query.max_length, []).append(number)
        for limit, numbers in limited.items():
            again = search([sources[number] for number in numbers], limit, beam)
            for number, hypotheses in zip(numbers, again, strict=True):
                found[number] = hypotheses
        for hypotheses, query in zip(found, queries, strict=True):
            rank = partial(_rank, marks, set(query.ids))
            hypotheses[:] = sorted(hypotheses, key=rank)[:n_best]
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
        length = max(1, len(ids))
        log_prob = score * length**self.penalty
        finished, decode = ids[-1:] == [EOS], self.decode
        return Hypothesis(
            ids[:-1] if finished else ids,
            [math.nan] * len(ids),
            log_prob,
            log_prob / length_penalty(length, decode.length_penalty, decode.length_offset),
            finished,
        )


def _rank(
    marks: set[int], source: set[int], hypothesis: tuple[list[int], float]
) -> tuple[bool, bool]:
    """Return whether a hypothesis has a mark twice or one that its source lacks, and is cut off."""
    ids, _ = hypothesis
    found = [each for each in ids if each in marks]
    return len(found) != len(source.intersection(found)), ids[-1:] != [EOS]


class _Record(Config):
    """The record of a model that is stored beside a bundle."""

    # The SHA-256 of the bundle's `config.json`, which holds the checksums of its other files.
    bundle: str
    # The versions of crosshead and CTranslate2.
    crosshead: str
    ctranslate2: str
    # The largest numbers of positions of a source and of a target.
    most_source: int | None = Field(ge=1)
    most_target: int | None = Field(ge=1)
    files: dict[str, FileChecksum]


def versions(state: BundleState) -> dict[str, str]:
    """Return what a stored model of a bundle must agree with."""
    return {
        "bundle": state.sha256, "crosshead": __version__, "ctranslate2": version("ctranslate2"),
    }  # fmt: skip


def record_of(state: BundleState) -> _Record | None:
    """Return the record of the model that is stored beside a bundle, or None if it is not whole."""
    folder = state.path / STORED
    try:
        record = validate(_Record, read_metadata(folder / RECORD, LARGEST_CONFIG))
        names = {each.name for each in folder.iterdir() if not each.is_symlink()}
        if {*record.files, RECORD, IGNORED} != names or folder.parent.is_symlink():
            return None
        manifest = Manifest(folder, record.files, of_config=False)
        manifest.check_sizes(record.files)
        for name in record.files:
            manifest.check(name)
    except (OSError, UserError):
        return None
    return record if versions(state).items() <= record.model_dump().items() else None


class StoredCTranslate2:
    """A model in CTranslate2's form beside its bundle, with the settings of one search."""

    def __init__(
        self, folder: Path, record: _Record, parts: TextParts, decode: DecodeConfig, workers: int
    ) -> None:
        self.most_positions: MostPositions = record.most_source, record.most_target
        self.alignments = CTranslate2Model(
            parts,
            library().Translator(str(folder), device="cpu", inter_threads=workers, intra_threads=1),
        )
        batch = partial(CTranslate2Batch, self.alignments, decode.length_penalty, decode)
        self.decode = decode
        self.search = search_with(NAME, batch, decode, self.most_positions[1])
