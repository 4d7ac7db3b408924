"""Monolingual text, and the tokens of any text."""
