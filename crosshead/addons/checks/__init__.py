"""Checks of parallel text: suspect pairs with their reasons, and cleaned files."""
