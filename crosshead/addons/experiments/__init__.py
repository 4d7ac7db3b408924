"""Experiments: several runs of one recipe, and training data that models write."""
