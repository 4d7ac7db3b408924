"""The ids that mean the same in every vocabulary."""

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""Padding, the beginning of a target, the end of a sentence, and a piece outside the vocabulary."""

MASK = BOS
"""The id of a masked token in monolingual text, which needs no start token."""
