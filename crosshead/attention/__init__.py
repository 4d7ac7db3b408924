"""Attention: scores, masks, positions, caches and the one softmax; imports torch and jaxtyping."""
