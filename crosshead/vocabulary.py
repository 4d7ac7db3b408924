"""The ids that mean the same in every vocabulary."""

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""Padding, beginning of a target, end of a sentence, a piece the vocabulary lacks."""

MASK = BOS
"""What stands for a token that is hidden, in text by itself, which has no target that begins."""
