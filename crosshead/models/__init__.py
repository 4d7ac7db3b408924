"""One architecture, one file, its configuration beside it."""
