"""Layers: the parts that models are built from."""
