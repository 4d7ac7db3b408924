"""Verification of an export: the foreign library computes the same as crosshead.

Three things are compared: the log-probability of every token of given texts, the tokens of lines
and the texts of outputs by the export's own tokenizer, and the texts that both searches find. The
searches have no length penalty, because libraries define it differently. A translation model
translates lines. A language model continues the first half of each line with the most probable
tokens.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from crosshead.addons.interop.base import Foreign, ForeignSearch, Tolerance, prompted
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import option
from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import greedy_search
from crosshead.errors import UserError
from crosshead.models.base import decodable
from crosshead.tasks.batched_search import TokenInputs, search_all
from crosshead.text.batching import Batch, Example, collate, example_lengths, plan_in_order
from crosshead.text.parallel.languages import tag_of, with_tag
from crosshead.text.streams import decode_text
from crosshead.text.subwords import RESERVED
from crosshead.text.visible import visible

T = TypeVar("T")

INVALID = "\ufffd"
"""The character for bytes that are no text."""

MOST_LINES = 200
"""The largest number of lines that are translated for a comparison."""

MADE_UP_LINES, MADE_UP_TOKENS = 40, 12
"""The number of lines that are made up if none are given, and the most tokens of one."""

CONTINUED_TOKENS = 20
"""The tokens of a continuation that is compared, unless the model reads fewer at once."""

FEW = 20
"""The fewest outputs of which one may differ: two searches may part at nearly equal hypotheses."""

MOST_POSITIONS = 4096
"""The most tokens of the line that has the largest length that the model reads at once."""

COVERED_TOKENS = 24
"""The tokens of each of the pairs that together contain every piece of both vocabularies."""


class ExportError(UserError):
    """An export that does not compute the same as the model."""


@dataclass(frozen=True)
class Comparison:
    """The differences between an export and its model.

    Attributes:
        lines: The number of lines.
        made_up: True if the lines were made up from the vocabulary.
        tokens: The number of compared log-probabilities.
        largest_difference: The largest difference of the log-probability of a token, in nats.
        mean_difference: The mean difference, in nats.
        misread: The number of lines whose tokens, or whose output's text, are others by the
            tokenizer of the export.
        compared: The number of compared outputs: the translations that ended, or continuations.
        different: The number of these outputs that differ.
        beam: The beam of both searches.
        outputs: The noun for the outputs, in the plural.
    """

    lines: int
    made_up: bool
    tokens: int
    largest_difference: float
    mean_difference: float
    misread: int
    compared: int
    different: int
    beam: int
    outputs: str = "translations"

    def __str__(self) -> str:
        """Return the comparison as a clause."""
        same, read = f"no finished {self.outputs} to compare", ""
        if self.compared:
            count = self.compared - self.different
            share = f"{count / self.compared:.1%} ({count} of {self.compared})"
            same = f"identical {self.outputs} {share}"
        if self.misread:
            read = f", other tokens or texts in {self.misread} of {self.lines} lines"
        return (
            f"largest difference of a log-probability {self.largest_difference:.2g}, mean "
            f"{self.mean_difference:.2g} ({self.tokens:,} tokens), {same}{read}"
        )


class Output(NamedTuple):
    """A line that the model reads and crosshead's output, as crosshead's tokenizer has both."""

    line: str
    ids: list[int]
    """The token ids of the line."""
    tokens: list[int]
    """The token ids of the output."""
    text: str
    ended: bool = True
    """True if the search found an end; only such outputs are compared as texts."""


def lines_to_compare(bundle: TextBundle, sources: Sequence[str]) -> list[str]:
    """Return the validation lines that both sides translate.

    Lines that are blank, that crosshead would split, or that have a character which some formats
    read otherwise (`RESERVED`) are left out.
    """
    longest = _longest_line(bundle)
    found = [
        line
        for line, ids in zip(sources, source_ids(bundle, sources), strict=True)
        if line.strip() and len(ids) <= longest and _is_usual(line)
    ]
    if not found:
        raise ExportError(
            f"none of the {len(sources)} validation lines has 1 to {longest} tokens; give other "
            "lines"
        )
    return found[:MOST_LINES]


def _is_usual(text: str) -> bool:
    """Return whether a text has no character that crosshead's subword tokenizers escape."""
    return not set(text) & set(RESERVED)


def _is_comparable(text: str) -> bool:
    """Return whether libraries show a text alike: bytes that are no text differ between them."""
    return _is_usual(text) and INVALID not in text


def _longest_line(bundle: TextBundle) -> int:
    """Return the most tokens of a compared line. A language model reads an end token before it."""
    longest = bundle.config.longest_source - (bundle.config.model.vocabularies == 1)
    if not longest:
        raise ExportError(
            "the model reads one token at once, which is too little to compare an export with it; "
            f"leave out the verification with {option('no-verify')}"
        )
    return longest


def source_ids(bundle: TextBundle, lines: Sequence[str]) -> list[list[int]]:
    """Return the token ids of sources, with the tag of the first target language, if any."""
    return bundle.source_tokenizer.encode_lines(tagged_sources(bundle, lines))


def tagged_sources(bundle: TextBundle, lines: Sequence[str]) -> list[str]:
    """Return stripped lines with the tag of the first target language, if there is one."""
    languages = bundle.config.target_languages
    tagged = with_tag(tag_of(languages[0]), lines) if languages else lines
    return [line.strip() for line in tagged]


def compare_export(
    bundle: TextBundle,
    foreign: Foreign,
    lines: Sequence[str] | None,
    *,
    every_piece: bool,
) -> Comparison:
    """Compare an export with its model."""
    chosen, room = _made_up(bundle) if lines is None else lines, longest_output(bundle)
    if bundle.config.model.vocabularies == 2 and not bundle.source_tokenizer.normalises:
        # Other programs read what cannot be seen, and crosshead leaves it out.
        chosen = list(map(visible, chosen))
    examples: list[Example]
    if bundle.config.model.vocabularies == 2:
        search = ForeignSearch(bundle.config.decode.beam, 0.0, room)
        own = _translations(bundle, chosen, search)
        # An output that did not end has no place for the end that is scored after it.
        examples = [(each.ids, each.tokens[: room - 1]) for each in own]
    else:
        search = ForeignSearch(1, 0.0, max(1, min(CONTINUED_TOKENS, room // 2)))
        own = _continuations(bundle, chosen, search.max_length)
        examples = [((), ids) for ids in source_ids(bundle, chosen)]
    examples += _covering(bundle) if every_piece else []
    differences = _differences(bundle, foreign, examples)
    ended = [each for each in own if each.ended and _is_comparable(each.text)]
    compared = [each.line for each in ended]
    texts = foreign.translate(compared, search) if compared else []
    return Comparison(
        lines=len(chosen),
        made_up=lines is None,
        tokens=len(differences),
        largest_difference=float(differences.max()),
        mean_difference=float(differences.mean()),
        misread=_misread(foreign, own),
        compared=len(texts),
        different=sum(
            text.strip() != each.text.strip() for text, each in zip(texts, ended, strict=True)
        ),
        beam=search.beam,
        outputs="translations" if bundle.config.model.vocabularies == 2 else "continuations",
    )


def _differences(bundle: TextBundle, foreign: Foreign, examples: Sequence[Example]) -> Tensor:
    """Return the difference of the log-probability of each token of pairs."""
    found = zip(foreign.log_probs(examples), own_log_probs(bundle, examples), strict=True)
    return torch.tensor(
        [abs(theirs - ours) for rows in found for theirs, ours in zip(*rows, strict=True)]
    )


def _misread(foreign: Foreign, own: Sequence[Output]) -> int:
    """Return the number of lines that the tokenizer of an export reads or shows otherwise."""
    read = foreign.encode([each.line for each in own])
    texts = foreign.decode([each.tokens for each in own])
    return sum(
        ids != each.ids or (_is_comparable(each.text) and text.strip() != each.text.strip())
        for each, ids, text in zip(own, read, texts, strict=True)
    )


def _translations(bundle: TextBundle, lines: Sequence[str], search: ForeignSearch) -> list[Output]:
    """Return the translations of lines, with the settings of the foreign search."""
    sources, decode = source_ids(bundle, lines), bundle.target_tokenizer.decode
    settings = search.decode(batch_tokens=bundle.config.decode.batch_tokens)
    model, free = decodable(bundle.model), free_specials(bundle)
    found = search_all(model, TokenInputs(sources), free, settings, most=search.max_length)
    return [
        Output(line, ids, list(best.tokens), decode(best.tokens), best.finished)
        for line, ids, [best, *_] in zip(lines, sources, found, strict=True)
    ]


def free_specials(bundle: TextBundle) -> Specials:
    """Return the special tokens of a search that may write invalid UTF-8, as libraries do."""
    return replace(bundle.specials, high_bytes=())


def _continuations(bundle: TextBundle, lines: Sequence[str], length: int) -> list[Output]:
    """Return the greedy continuations of the first halves of lines."""
    tokenizer, room = bundle.target_tokenizer, longest_output(bundle)
    prompts: dict[str, list[int]] = {}
    for line in lines:
        prompt = line[: len(line) // 2]
        while len(ids := prompted(bundle, prompt)) + length > room:
            prompt = prompt[: len(prompt) // 2]
        prompts[prompt] = ids

    def continued(some: list[list[int]]) -> list[list[int]]:
        prefix, limits = torch.tensor(some), torch.full((len(some),), length)
        best = greedy_search(
            decodable(bundle.model), prefix[:, :0], limits, free_specials(bundle), 0.0, prefix
        )
        return [list(hypothesis.tokens) for [hypothesis] in best]

    outputs = in_equal_lengths(list(prompts.values()), continued)
    return [
        Output(line, ids, tokens, decode_text(tokenizer, tokens))
        for (line, ids), tokens in zip(prompts.items(), outputs, strict=True)
    ]


def in_equal_lengths(
    prompts: Sequence[list[int]], continued: Callable[[list[list[int]]], list[T]]
) -> list[T]:
    """Return the continuation of each prompt; prompts of one length are continued together."""
    by_length = defaultdict(list)
    for row, prompt in enumerate(prompts):
        by_length[len(prompt)].append(row)
    found: dict[int, T] = {}
    for rows in by_length.values():
        found |= zip(rows, continued([prompts[row] for row in rows]), strict=True)
    return [found[row] for row in range(len(prompts))]


def check_comparison(found: Comparison, tolerance: Tolerance, name: str) -> None:
    """Check that the differences of an export are small.

    Of `FEW` outputs or more, one may differ. The tokenizer may read or show 2 % of the lines
    otherwise, whatever the number format of the weights is.
    """
    most = max(found.compared * tolerance.different // 100, int(found.compared >= FEW))
    # Not `>`: a difference may be NaN.
    if (
        found.largest_difference <= tolerance.log_prob
        and found.mean_difference <= tolerance.mean
        and found.different <= most
        and found.misread <= found.lines // 50
    ):
        return
    raise ExportError(
        f"{name}: the export differs from the model: {found}; expected a difference of at most "
        f"{tolerance.log_prob:g}, a mean of at most {tolerance.mean:g}, at most {most} other "
        f"{found.outputs}, and other tokens or texts in at most {found.lines // 50} lines; try "
        "another number format"
    )


def longest_output(bundle: TextBundle) -> int:
    """Return the largest number of tokens of an output, end included.

    A language model has its context length: the number of tokens that it reads at once.
    """
    if bundle.config.model.vocabularies == 1:
        return bundle.config.longest_source
    longest = bundle.config.longest_source + 1 + bundle.config.decode.max_extra
    return min(longest, bundle.config.model.most_positions or longest)


def own_log_probs(bundle: TextBundle, examples: Sequence[Example]) -> list[list[float]]:
    """Return the model's log-probability of each target token and of the end.

    Only the tokens that search may produce count.
    """
    model, sides = decodable(bundle.model), bundle.config.model.vocabularies
    return scored(bundle, examples, lambda batch: model(*batch.inputs[-sides:]), bundle.forbidden)


def scored(
    bundle: TextBundle,
    examples: Sequence[Example],
    logits: Callable[[Batch], Tensor],
    never: Iterable[int] = (),
    columns: Tensor | None = None,
) -> list[list[float]]:
    """Return the log-probability of each target token and of the end, from logits of batches.

    `columns` holds the column of the logits for each token id, and `never` the columns that search
    never produces.
    """
    found: dict[int, list[float]] = {}
    excluded = torch.tensor([*never], dtype=torch.long)
    for rows in plan_in_order(example_lengths(examples), 4096):
        batch = collate(examples, rows.tolist(), bundle.specials.start)
        expected = batch.target_output if columns is None else columns[batch.target_output]
        with torch.inference_mode():
            allowed = logits(batch).float().index_fill(-1, excluded, float("-inf"))
            values = allowed.log_softmax(-1).gather(-1, expected[..., None])[..., 0]
        found |= zip(rows.tolist(), values.tolist(), strict=True)
    return [found[row][: len(target) + 1] for row, (_, target) in enumerate(examples)]


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
        if line and len(ids) <= longest and _is_usual(line):
            lines.append(line)
    return lines


def _covering(bundle: TextBundle) -> list[Example]:
    """Return pairs that contain every ordinary piece of both vocabularies, and one long pair.

    The long pair has the largest lengths that the model reads and produces, so that no table of
    positions is too short.
    """
    most = min(COVERED_TOKENS, _longest_line(bundle))
    longest = _longest_line(bundle), longest_output(bundle) - 1
    sides, whole = [], []
    for size, without, length in (
        (bundle.config.source_vocabulary, set(), longest[0]),
        (bundle.config.target_vocabulary, set(bundle.forbidden), longest[1]),
    ):
        ids = [index for index in range(3, size) if index not in without]
        sides.append([ids[i : i + most] for i in range(0, len(ids), most)])
        length = min(length, MOST_POSITIONS)
        whole.append((ids * (length // len(ids) + 1))[:length])
    (sources, targets), (source, target) = sides, whole
    if bundle.config.model.vocabularies == 1:
        return [*(((), each) for each in targets), ((), target)]
    count = max(len(sources), len(targets))
    pairs = [(sources[i % len(sources)], targets[i % len(targets)]) for i in range(count)]
    return [*pairs, (source, target)]
