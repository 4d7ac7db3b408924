"""Tokenised references, whose BLEU compares only with BLEU on text tokenised in the same way."""

from collections.abc import Iterable

_LEAST_LINES = 10
"""Fewer lines with a full stop at their end do not tell whether text is tokenised."""

_LEAST_SHARE = 0.5
"""The smallest share of these lines, with a space before the full stop, of a tokenised text."""


def tokenised_warning(references: Iterable[str], where: str) -> list[str]:
    """Return a warning, in a list, if references are tokenised text.

    Text is tokenised if a space stands before most full stops at the ends of its lines.
    """
    ends = [line.endswith(" .") for line in map(str.rstrip, references) if line.endswith(".")]
    if len(ends) < _LEAST_LINES or sum(ends) < _LEAST_SHARE * len(ends):
        return []
    return [
        f"warning: {where}: tokenised text (a space stands before {sum(ends):,} of {len(ends):,} "
        "full stops at the ends of lines), so its BLEU compares only with BLEU on text that is "
        "tokenised in the same way; score it with `crosshead evaluate --tokenize none`, or give "
        "text that is not tokenised"
    ]
