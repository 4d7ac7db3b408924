"""Masked language modelling: models that predict masked tokens."""
