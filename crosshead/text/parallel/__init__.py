"""Parallel text: reading, filtering, held-out sets and storage."""
