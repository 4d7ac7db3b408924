"""Search for the outputs of a model: greedy search, beam search and sampling.

Axes: `B` sentences, `S` source positions, `R` rows of a sentence, `N` = `B` times `R` rows being
decoded, `V` vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from crosshead.decoding.beam import beam_search
from crosshead.decoding.candidates import (
    NextTokens,
    best_first,
    check_lengths,
    first_tokens,
    make_hypothesis,
    top_values,
)
from crosshead.decoding.hypotheses import Hypothesis, Specials
from crosshead.decoding.markup import owed as marks_owed
from crosshead.decoding.protocol import Decodable, Sources, State
from crosshead.decoding.sampling import inverse_cdf, sampled_from, uniforms
from crosshead.decoding.settings import OFFSET, DecodeConfig

__all__ = ["greedy_search", "sample", "search", "stream"]


def search(
    model: Decodable[State],
    source: Sources,
    max_lengths: Int[Tensor, " B"],
    specials: Specials,
    config: DecodeConfig,
    n_best: int = 1,
    numbers: Sequence[int] | None = None,
    prefix: Int[Tensor, "B P"] | None = None,
) -> list[list[Hypothesis]]:
    """Return the `n_best` hypotheses of each sentence, best first.

    The search is beam search; greedy search if `config.beam` is 1; or sampling if `config.sample`
    is True. Finished hypotheses come before the ones that were cut off. The result of a sentence
    does not depend on the other sentences in the batch, as far as the model's logits do not.

    Args:
        model: The model.
        source: The sources, which `model.start` takes.
        max_lengths: The maximum length of each output in tokens, eos counted, "B". The paper has
            source length + `config.max_extra`.
        specials: The special tokens.
        config: The settings.
        n_best: Number of hypotheses per sentence.
        numbers: A number for each sentence, its line for example; by default 0 to B - 1. Samples
            depend on it and on `config.seed`.
        prefix: Tokens fed before the first one that is searched for, "B P": a text to continue. By
            default the start token. Hypotheses do not contain it.

    Returns:
        A list for each sentence. In beam search it is shorter than `n_best` only if fewer
        hypotheses exist.

    Raises:
        ConfigError: If `n_best` is below 1 or larger than the beam.
        BundleError: If the model's probabilities are not finite.
    """
    config.check_count(n_best)
    if config.sample:
        return sample(model, source, max_lengths, specials, config, n_best, numbers, prefix)
    if config.beam == 1:
        return greedy_search(
            model,
            source,
            max_lengths,
            specials,
            config.length_penalty,
            prefix,
            config.length_offset,
            config.min_length,
        )
    return beam_search(
        model,
        source,
        max_lengths,
        specials,
        config.beam,
        config.length_penalty,
        n_best,
        prefix,
        config.stop,
        config.length_offset,
        config.min_length,
    )


def greedy_search(
    model: Decodable[State],
    source: Sources,
    max_lengths: Int[Tensor, " B"],
    specials: Specials,
    alpha: float,
    prefix: Int[Tensor, "B P"] | None = None,
    offset: float = OFFSET,
    min_length: int = 0,
) -> list[list[Hypothesis]]:
    """Return one hypothesis for each sentence, with the most probable token at every step.

    Args:
        model: The model.
        source: The sources, which `model.start` takes.
        max_lengths: The maximum length of each output in tokens, eos counted, "B".
        specials: The special tokens.
        alpha: The exponent of the length penalty, for scores.
        prefix: Tokens fed before the first one that is searched for, "B P", as for `search`.
        offset: The constant k of the length penalty, for scores.
        min_length: The shortest output, in tokens without eos.

    Returns:
        A list with one hypothesis for each sentence.
    """
    scored = partial(make_hypothesis, specials=specials, alpha=alpha, offset=offset)
    next_tokens = NextTokens(model, specials, min_length)
    return _extend(model, next_tokens, source, max_lengths, scored, 1, _most_probable, prefix)


def sample(
    model: Decodable[State],
    source: Sources,
    max_lengths: Int[Tensor, " B"],
    specials: Specials,
    config: DecodeConfig,
    count: int,
    numbers: Sequence[int] | None = None,
    prefix: Int[Tensor, "B P"] | None = None,
) -> list[list[Hypothesis]]:
    """Return independent samples of each sentence, best first.

    One uniform number per token picks the token from the cumulative distribution. Its generator is
    seeded with (seed, sentence number, number of the sample). So neither the other sentences nor
    the number of samples changes a sample.

    Args:
        model: The model.
        source: The sources, which `model.start` takes.
        max_lengths: The maximum length of each output in tokens, eos counted, "B".
        specials: The special tokens.
        config: The settings.
        count: Number of samples per sentence.
        numbers: A number for each sentence, as for `search`.
        prefix: Tokens fed before the first one that is drawn, "B P", as for `search`.

    Returns:
        A list of `count` hypotheses for each sentence.

    Raises:
        ValueError: If there are not as many `numbers` as sources.
    """
    numbers = range(len(source)) if numbers is None else numbers
    if len(numbers) != len(source):
        raise ValueError(f"{len(source)} sources, but {len(numbers)} sentence numbers")
    longest = int(max_lengths.max()) if len(source) else 0
    drawn = np.array(
        [
            [uniforms(config.seed, number, index, longest) for index in range(count)]
            for number in numbers
        ],
        dtype=np.float32,
    ).reshape(len(numbers) * count, longest)
    draw = _sampler(torch.from_numpy(drawn).to(source.device), specials, config)
    scored = partial(
        make_hypothesis,
        specials=specials,
        alpha=config.length_penalty,
        offset=config.length_offset,
    )
    next_tokens = NextTokens(model, specials, config.min_length)
    return _extend(model, next_tokens, source, max_lengths, scored, count, draw, prefix)


def stream(
    model: Decodable[State],
    prefix: Int[Tensor, "1 P"],
    length: int,
    specials: Specials,
    config: DecodeConfig,
    number: int = 0,
) -> Iterator[int]:
    """Yield the tokens of one greedy or sampled hypothesis, each as soon as it is chosen.

    `search` with an empty source, this prefix and this number returns the same tokens.

    Args:
        model: The model.
        prefix: Tokens fed before the first one that is chosen, "1 P".
        length: The maximum number of tokens, eos counted.
        specials: The special tokens.
        config: The settings.
        number: The number of the text, for samples.

    Yields:
        Token ids; eos, if it comes, is the last one.
    """
    pick: Pick = _most_probable
    if config.sample:
        drawn = torch.from_numpy(uniforms(config.seed, number, 0, length)[None])
        pick = _sampler(drawn.to(prefix.device), specials, config)
    next_tokens, written = NextTokens(model, specials, config.min_length), prefix[:, :0]
    row = torch.zeros(1, dtype=torch.long, device=prefix.device)
    with torch.inference_mode():
        state, last = model.start(prefix[:, :0]), prefix
    for position in range(length):
        with torch.inference_mode():
            hidden, state = model.step(state, last)
            choose = partial(_pick_block, pick, row, position)
            _, last = next_tokens.choose(hidden, choose, written)
            written = torch.cat([written, last], dim=1)
        token = int(last)
        yield token
        if token == specials.eos:
            return


Pick = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""A function of log-probabilities `N V` of some rows, the numbers of these rows and the position.
It returns the log-probabilities and ids `N 1` of their tokens."""


def _most_probable(
    log_probs: Float[Tensor, "N V"], rows: Int[Tensor, " N"], position: int
) -> tuple[Float[Tensor, "N 1"], Int[Tensor, "N 1"]]:
    return top_values(log_probs, 1)


def _sampler(numbers: Float[Tensor, "R T"], specials: Specials, config: DecodeConfig) -> Pick:
    """Return a function that picks the token of a row with the uniform number of the position."""

    def draw(
        log_probs: Float[Tensor, "N V"], rows: Int[Tensor, " N"], position: int
    ) -> tuple[Float[Tensor, "N 1"], Int[Tensor, "N 1"]]:
        ids, probabilities = sampled_from(
            log_probs, specials.forbidden, config.temperature, config.top_k, config.top_p
        )
        places = inverse_cdf(probabilities, numbers[rows, position])
        tokens = ids[places][:, None]
        return log_probs.gather(1, tokens), tokens

    return draw


def _pick_block(
    pick: Pick, rows: Tensor, position: int, log_probs: Tensor, block: slice
) -> tuple[Tensor, Tensor]:
    """Return the result of `pick` for a block of the rows."""
    return pick(log_probs, rows[block], position)


@torch.no_grad()
def _extend(
    model: Decodable[State],
    next_tokens: NextTokens,
    source: Sources,
    max_lengths: Int[Tensor, " B"],
    scored: Callable[[list[int], list[float]], Hypothesis],
    rows: int,
    pick: Pick,
    prefix: Int[Tensor, "B P"] | None,
) -> list[list[Hypothesis]]:
    """Extend `rows` independent rows of each sentence with the tokens that `pick` picks.

    A sentence leaves the batch when all its rows have ended or it has reached its maximum length.
    Until then all its rows are fed, so that every sentence has the same number. `scored` makes the
    hypothesis of a row from its tokens and their log-probabilities.
    """
    check_lengths(max_lengths)
    device = source.device
    results: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    if not results:
        return results
    specials = next_tokens.specials
    state = model.start(source)
    if rows > 1:
        state = state.select(torch.arange(len(source), device=device).repeat_interleave(rows))
    numbers = torch.arange(len(source) * rows, device=device)
    limits = max_lengths.to(device)
    last = first_tokens(source, specials, prefix).repeat_interleave(rows, dim=0)
    marks = marks_owed(source, specials.marks).to(device)
    owed = marks.repeat_interleave(rows, dim=0) if marks.any() else None
    tokens = last[:, :0]
    token_log_probs = torch.empty(tokens.shape, device=device)
    ended = torch.zeros(len(last), dtype=torch.bool, device=device)
    while True:
        hidden, state = model.step(state, last)
        log_probs, last = next_tokens.choose(
            hidden,
            partial(_pick_block, pick, numbers, tokens.shape[1]),
            tokens,
            owed,
        )
        tokens = torch.cat([tokens, last], dim=1)
        token_log_probs = torch.cat([token_log_probs, log_probs], dim=1)
        ended = ended | (last[:, 0] == specials.eos)
        done = ended.view(-1, rows).all(1) | (limits <= tokens.shape[1])
        if not done.any():
            continue
        done_rows = done.repeat_interleave(rows)
        columns = (numbers // rows, tokens, token_log_probs)
        histories = zip(*(each[done_rows].tolist() for each in columns), strict=True)
        for sentence, row, row_log_probs in histories:
            results[sentence].append(scored(row, row_log_probs))
        kept = (~done_rows).nonzero().flatten()
        if not len(kept):
            return [best_first(found) for found in results]
        state = state.select(kept)
        numbers, limits, owed = numbers[kept], limits[~done], None if owed is None else owed[kept]
        last, tokens, token_log_probs = last[kept], tokens[kept], token_log_probs[kept]
        ended = ended[kept]
