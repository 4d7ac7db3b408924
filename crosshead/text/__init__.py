"""Monolingual text, and tokenizers for any text."""
