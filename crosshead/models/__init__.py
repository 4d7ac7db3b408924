"""Models: one architecture, one file, its configuration beside it."""
