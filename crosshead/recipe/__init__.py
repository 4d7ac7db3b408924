"""Recipes: a whole run as one value."""
