"""Verification of an export: the foreign library computes the same as crosshead.

Two things are compared: the log-probability of every token of given texts, and the texts that both
searches find. The searches have no length penalty, because libraries define it differently. A
translation model translates lines. A language model continues the first half of each line with the
most probable tokens.
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import option
from crosshead.data.batching import Example, collate, example_lengths, plan_in_order
from crosshead.data.parallel.directions import tag_of, with_tag
from crosshead.data.text.streams import decode_text
from crosshead.data.text.tokenizers import token_ids
from crosshead.decoding.search import DecodeConfig, Hypothesis, greedy_search
from crosshead.errors import UserError
from crosshead.interop.base import Foreign, ForeignSearch, Tolerance, prompted
from crosshead.models.base import SequenceModel, decodable
from crosshead.pipelines.batched_search import TokenInputs, search_all
from crosshead.system.files import atomic_write

MOST_LINES = 200
"""The largest number of lines that are translated for a comparison."""

MADE_UP_LINES, MADE_UP_TOKENS = 40, 12
"""The number of lines that are made up if none are given, and the most tokens of one."""

CONTINUED_TOKENS = 20
"""The tokens of a continuation that is compared, unless the model reads fewer at once."""

COVERED_TOKENS = 24
"""The tokens of each of the pairs that together contain every piece of both vocabularies."""


class ExportError(UserError):
    """An export that does not compute the same as the model."""


@dataclass(frozen=True)
class Comparison:
    """The differences between an export and its model.

    Attributes:
        lines: The number of lines that were translated or continued.
        made_up: True if the lines were made up from the vocabulary.
        tokens: The number of compared log-probabilities.
        largest_difference: The largest difference of the log-probability of a token, in nats.
        mean_difference: The mean difference, in nats.
        identical: The share of lines with the same output; None if no translation ended.
        beam: The beam of both searches.
        outputs: The noun for the outputs, in the plural.
    """

    lines: int
    made_up: bool
    tokens: int
    largest_difference: float
    mean_difference: float
    identical: float | None
    beam: int
    outputs: str = "translations"

    def __str__(self) -> str:
        """Return the comparison as a clause."""
        same = "no translation ended" if self.identical is None else f"{self.identical:.1%}"
        return (
            f"largest difference of a log-probability {self.largest_difference:.2g} "
            f"({self.tokens:,} tokens), identical {self.outputs} {same} ({self.lines} lines)"
        )


class Trial(NamedTuple):
    """The inputs of a comparison, and what crosshead makes of them."""

    examples: list[Example]
    """The pairs whose tokens are scored."""
    lines: list[str]
    """The lines whose outputs are compared."""
    outputs: list[str]
    """Crosshead's output for each of these lines."""
    search: ForeignSearch
    """The settings of both searches."""
    kind: str
    """The noun for the outputs, in the plural: `translations` or `continuations`."""


def lines_to_compare(bundle: TextBundle, lines: Sequence[str] | None) -> list[str]:
    """Return the lines that both sides translate: given ones, or ones made up from the vocabulary.

    Args:
        bundle: The bundle.
        lines: The given lines. Blank lines and lines that crosshead would split are left out.

    Raises:
        ExportError: If no given line is left, or the model reads too few tokens at once.
    """
    longest = _longest_line(bundle)
    if not longest:
        raise ExportError(
            "the model reads one token at once, which is too little to compare an export with it; "
            f"leave out the verification with {option('no-verify')}"
        )
    if lines is None:
        return _made_up(bundle)
    found = [
        line
        for line, ids in zip(lines, source_ids(bundle, lines), strict=True)
        if line.strip() and len(ids) <= longest
    ][:MOST_LINES]
    if not found:
        raise ExportError(
            f"none of the {len(lines)} validation lines has 1 to {longest} tokens; give other lines"
        )
    return found


def _longest_line(bundle: TextBundle) -> int:
    """Return the most tokens of a compared line. A language model reads an end token before it."""
    return bundle.config.longest_source - (bundle.config.model.vocabularies == 1)


def source_ids(bundle: TextBundle, lines: Sequence[str]) -> list[list[int]]:
    """Return the token ids of sources, with the tag of the first target language if there is one.

    Args:
        bundle: The bundle.
        lines: The sources.
    """
    languages = bundle.config.target_languages
    tagged = with_tag(tag_of(languages[0]), lines) if languages else list(lines)
    return token_ids(bundle.source_tokenizer, tagged)


def compare_export(
    bundle: TextBundle,
    foreign: Foreign,
    lines: Sequence[str] | None,
    *,
    every_piece: bool,
    expected: Callable[[Sequence[str]], list[str]] | None = None,
) -> Comparison:
    """Compare an export with its model.

    Args:
        bundle: The bundle, with the model on a CPU.
        foreign: The export.
        lines: Validation lines, or None to make some up.
        every_piece: Whether pairs that contain every piece of both vocabularies are scored, too.
        expected: Function from lines to the translations that the foreign library should find, if
            its search is none of crosshead's; by default both search with the bundle's beam and
            without a length penalty.

    Returns:
        The differences.
    """
    chosen = lines_to_compare(bundle, lines)
    make = _translations if bundle.config.model.vocabularies == 2 else _continuations
    trial = make(bundle, chosen)
    examples = [*trial.examples, *(_covering(bundle) if every_piece else ())]
    differences = torch.tensor(
        [
            abs(theirs - ours)
            for row, expected_row in zip(
                foreign.log_probs(examples), own_log_probs(bundle, examples), strict=True
            )
            for theirs, ours in zip(row, expected_row, strict=True)
        ]
    )
    wanted = trial.outputs if expected is None else expected(trial.lines)
    texts = foreign.translate(trial.lines, trial.search) if trial.lines else []
    same = sum(text == right for text, right in zip(texts, wanted, strict=True))
    return Comparison(
        lines=len(chosen),
        made_up=lines is None,
        tokens=len(differences),
        largest_difference=float(differences.max()),
        mean_difference=float(differences.mean()),
        identical=same / len(texts) if texts else None,
        beam=trial.search.beam,
        outputs=trial.kind,
    )


def _translations(bundle: TextBundle, lines: Sequence[str]) -> Trial:
    """Return the translations of lines; only those that ended are compared as texts."""
    sources = source_ids(bundle, lines)
    search = ForeignSearch(bundle.config.decode.beam, 0.0, longest_output(bundle))
    own = _own_search(bundle, sources, search)
    examples: list[Example] = [
        (source, best.tokens) for source, best in zip(sources, own, strict=True)
    ]
    rows = [row for row, best in enumerate(own) if best.finished]
    decode = bundle.target_tokenizer.decode
    outputs = [decode(own[row].tokens) for row in rows]
    return Trial(examples, [lines[row] for row in rows], outputs, search, "translations")


def _continuations(bundle: TextBundle, lines: Sequence[str]) -> Trial:
    """Return the greedy continuations of the first halves of lines."""
    tokenizer, room = bundle.target_tokenizer, longest_output(bundle)
    search = ForeignSearch(1, 0.0, max(1, min(CONTINUED_TOKENS, room // 2)))
    examples: list[Example] = [((), ids) for ids in source_ids(bundle, lines)]
    prompts: dict[str, list[int]] = {}
    for line in lines:
        prompt = line[: len(line) // 2]
        while len(ids := prompted(bundle, prompt)) + search.max_length > room:
            prompt = prompt[: len(prompt) // 2]
        prompts[prompt] = ids

    def continued(some: list[list[int]]) -> list[str]:
        prefix, limits = torch.tensor(some), torch.full((len(some),), search.max_length)
        best = greedy_search(
            decodable(bundle.model), prefix[:, :0], limits, bundle.specials, 0.0, prefix
        )
        return [decode_text(tokenizer, hypothesis.tokens) for [hypothesis] in best]

    outputs = in_equal_lengths(list(prompts.values()), continued)
    return Trial(examples, list(prompts), outputs, search, "continuations")


def in_equal_lengths(
    prompts: Sequence[list[int]], continued: Callable[[list[list[int]]], list[str]]
) -> list[str]:
    """Return the continuation of each prompt; prompts of one length are continued together.

    Args:
        prompts: The token ids of each prompt.
        continued: Returns the continuations of prompts of one length.
    """
    by_length = defaultdict(list)
    for row, prompt in enumerate(prompts):
        by_length[len(prompt)].append(row)
    found: dict[int, str] = {}
    for rows in by_length.values():
        found |= zip(rows, continued([prompts[row] for row in rows]), strict=True)
    return [found[row] for row in range(len(prompts))]


def check_comparison(found: Comparison, tolerance: Tolerance, name: str) -> None:
    """Check that the differences of an export are small.

    Of few lines, though at least `MADE_UP_LINES`, one may have another output.

    Args:
        found: The differences.
        tolerance: The largest ones that are allowed.
        name: The format and the number format, for the message.

    Raises:
        ExportError: If one is too large.
    """
    identical, least = 1.0 if found.identical is None else found.identical, tolerance.identical
    if found.lines >= MADE_UP_LINES:  # two searches may part where hypotheses are nearly equal
        least = min(least, 1 - 1 / found.lines)
    # Not `>`: a difference may be NaN.
    if found.largest_difference <= tolerance.log_prob and identical >= least:
        return
    raise ExportError(
        f"{name}: the export differs from the model: {found}; expected at most "
        f"{tolerance.log_prob:g} and at least {least:.1%}; nothing was written: "
        "try another number format, or report the model's configuration"
    )


def write_comparison(found: Comparison | None, path: Path, **more: object) -> None:
    """Write the differences of an export as JSON.

    Args:
        found: The differences; None if none were measured.
        path: The file.
        more: Further values of the file.
    """
    values = {} if found is None else asdict(found)
    text = json.dumps({**more, **values}, indent=1) + "\n"
    atomic_write(path, text.encode())


def longest_output(bundle: TextBundle) -> int:
    """Return the largest number of tokens of an output, end included.

    Of a language model, it is the number of tokens that it reads at once.

    Args:
        bundle: The bundle.
    """
    if bundle.config.model.vocabularies == 1:
        return bundle.config.longest_source
    longest = bundle.config.longest_source + 1 + bundle.config.decode.max_extra
    return min(longest, bundle.config.model.most_positions or longest)


def own_log_probs(bundle: TextBundle, examples: Sequence[Example]) -> list[list[float]]:
    """Return the model's log-probability of each target token and of the end.

    Only the tokens that search may produce count.

    Args:
        bundle: The bundle.
        examples: Source and target of each pair, as token ids.
    """
    model = decodable(bundle.model)
    with torch.inference_mode():
        return in_batches(examples, lambda rows: _of_batch(model, bundle, examples, rows))


def in_batches(
    examples: Sequence[Example], scored: Callable[[list[int]], list[list[float]]]
) -> list[list[float]]:
    """Return the log-probabilities of the tokens of each target and of its end.

    Args:
        examples: Source and target of each pair, as token ids.
        scored: Returns the log-probabilities of some pairs, padding included, by their numbers.
    """
    found: dict[int, list[float]] = {}
    for batch in plan_in_order(example_lengths(examples), 4096):
        rows = batch.tolist()
        for row, values in zip(rows, scored(rows), strict=True):
            found[row] = values[: len(examples[row][1]) + 1]
    return [found[row] for row in range(len(examples))]


def _of_batch(
    model: SequenceModel, bundle: TextBundle, examples: Sequence[Example], rows: list[int]
) -> list[list[float]]:
    batch = collate(examples, rows, bundle.specials.start)
    inputs = batch.inputs[-bundle.config.model.vocabularies :]
    logits = model(*inputs).float()
    logits[..., list(bundle.forbidden)] = float("-inf")
    expected = batch.target_output[..., None]
    values: list[list[float]] = logits.log_softmax(-1).gather(-1, expected)[..., 0].tolist()
    return values


def _own_search(
    bundle: TextBundle, sources: Sequence[Sequence[int]], search: ForeignSearch
) -> list[Hypothesis]:
    """Return the best hypothesis of each source, with the length limit of the foreign search."""
    decode = DecodeConfig(
        beam=search.beam,
        length_penalty=0.0,
        max_extra=1000,
        batch_tokens=bundle.config.decode.batch_tokens,
    )
    found = search_all(
        decodable(bundle.model),
        TokenInputs(sources),
        bundle.specials,
        decode,
        most=search.max_length,
    )
    return [hypotheses[0] for hypotheses in found]


def _made_up(bundle: TextBundle) -> list[str]:
    """Return lines of random pieces of the source vocabulary."""
    rng = random.Random(1)
    tokenizer = bundle.source_tokenizer
    tags = set(tokenizer.special)
    pieces = [
        index
        for index in range(4, tokenizer.vocab_size)
        if index not in tokenizer.line_breaks and tokenizer.pieces([index])[0] not in tags
    ]
    longest = _longest_line(bundle)
    most = min(MADE_UP_TOKENS, longest)
    lines: list[str] = []
    while len(lines) < MADE_UP_LINES:
        line = tokenizer.decode(rng.choices(pieces, k=rng.randint(1, most))).strip()
        [ids] = source_ids(bundle, [line])
        # Bytes that are no text are decoded as another character, which takes more tokens.
        if line and len(ids) <= longest:
            lines.append(line)
    return lines


def _covering(bundle: TextBundle) -> list[Example]:
    """Return pairs that together contain every ordinary piece of both vocabularies."""
    most = min(COVERED_TOKENS, _longest_line(bundle))
    sides = []
    for size, without in (
        (bundle.config.source_vocabulary, set()),
        (bundle.config.target_vocabulary, set(bundle.forbidden)),
    ):
        ids = [index for index in range(3, size) if index not in without]
        sides.append([ids[i : i + most] for i in range(0, len(ids), most)])
    sources, targets = sides
    if bundle.config.model.vocabularies == 1:
        return [((), target) for target in targets]
    count = max(len(sources), len(targets))
    return [(sources[i % len(sources)], targets[i % len(targets)]) for i in range(count)]
