"""Characters that are spelled in bytes: only valid UTF-8 is admitted (RFC 3629, section 4).

Axes: `N` rows (hypotheses), `P` tokens of a row, `V` vocabulary.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

HIGH = 0x80
"""The smallest byte that is not a character by itself."""

_LONGEST = 3
"""The most bytes of a character before its last one."""

_NEXT = torch.full((8, 256), -1)
"""The state after each byte; -1 if the byte may not follow. In state 0 a character may begin."""

# In state 1 one more byte is missing, in state 2 two, in state 3 three. The others forbid forms
# that are too long (4, 6), surrogates (5) and numbers above U+10FFFF (7).
for _state, _first, _last, _after in (
    (0, 0x00, 0x7F, 0), (0, 0xC2, 0xDF, 1), (0, 0xE0, 0xE0, 4), (0, 0xE1, 0xEC, 2),
    (0, 0xED, 0xED, 5), (0, 0xEE, 0xEF, 2), (0, 0xF0, 0xF0, 6), (0, 0xF1, 0xF3, 3),
    (0, 0xF4, 0xF4, 7), (1, 0x80, 0xBF, 0), (2, 0x80, 0xBF, 1), (3, 0x80, 0xBF, 2),
    (4, 0xA0, 0xBF, 1), (5, 0x80, 0x9F, 1), (6, 0x90, 0xBF, 2), (7, 0x80, 0x8F, 2),
):  # fmt: skip
    _NEXT[_state, _first : _last + 1] = _after


def states(tokens: Int[Tensor, "N P"], high: Int[Tensor, " 128"]) -> Int[Tensor, " N"]:
    """Return the state of each row: 0 if its last character is complete.

    `high` are the ids of the bytes from 0x80.
    """
    last = tokens[:, -_LONGEST:]
    found = last[:, :, None] == high
    values = torch.where(found.any(2), HIGH + found.int().argmax(2), 0)
    following, state = _NEXT.to(tokens.device), torch.zeros_like(tokens[:, :1]).sum(1)
    for place in range(last.shape[1]):
        # The last three tokens may begin inside a character.
        state = following[state, values[:, place]].clamp(min=0)
    return state


def whole(tokens: list[int], high: tuple[int, ...]) -> int:
    """Return the number of tokens up to the end of the last complete character."""
    rows = torch.tensor([tokens])
    counts = range(len(tokens), max(0, len(tokens) - _LONGEST - 1), -1)
    return next((n for n in counts if not states(rows[:, :n], torch.tensor(high))), 0)


def never_first(high: tuple[int, ...]) -> list[int]:
    """Return the ids of the bytes that may not begin a character."""
    return [id for id, after in zip(high, _NEXT[0, HIGH:].tolist(), strict=True) if after < 0]


def continued(found: Float[Tensor, "N 128"], state: Int[Tensor, " N"]) -> Float[Tensor, "N 128"]:
    """Return the log-probabilities of the bytes from 0x80 in rows with an incomplete character."""
    may_follow = _NEXT.to(state.device)[state, HIGH:] >= 0
    return found.masked_fill(~may_follow, -torch.inf)
