"""Kinds of data: how each is read, trained on and validated."""
