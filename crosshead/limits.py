"""The largest numbers that configurations take: far beyond what anybody trains.

Without them a number that is wrong, or hostile, ends in an overflow or in hours of building.
"""

MOST_LAYERS = 200
"""Layers of a stack. Checkpoints of 400 layers still fit LARGEST_HEADER."""

MOST_HEADS = 1_024
"""Heads of an attention."""

MOST_WIDTH = 65_536
"""The width of a vector: d_model, d_key, d_value."""

MOST_INNER = 262_144
"""The inner width of a feed-forward network, d_ff."""

MOST_POSITIONS = 500_000
"""Positions: learned ones, those of a window, a segment or a memory."""

MOST_KERNEL = 1_001
"""The positions that a convolution sees at once."""

MOST_TOKENS = 100_000_000
"""Tokens of one source."""

MOST_VOCABULARY = 10_000_000
"""Pieces of a vocabulary."""
