"""The ids that mean the same in every vocabulary."""

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""Padding, beginning of a target, end of a sentence, a piece the vocabulary lacks."""

MASK = BOS
"""The id of a hidden token in monolingual text, which needs no start token."""
