"""The ids that mean the same in every vocabulary."""

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""Padding, the beginning of a target, the end of a sentence, and a piece outside the vocabulary."""

CUT = -1
"""An input whose embedding is the zero vector: a token that training has cut out of a view. It is
in no vocabulary and in no target."""

MASK = BOS
"""The id of a masked token in monolingual text, which needs no start token."""
