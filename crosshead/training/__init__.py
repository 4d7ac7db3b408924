"""Training: from a recipe to a bundle. Only this package holds an optimiser."""
