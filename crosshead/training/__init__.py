"""From a recipe to a bundle: the only optimiser."""
