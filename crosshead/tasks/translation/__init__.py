"""Translation: models from a source text to a target text."""
