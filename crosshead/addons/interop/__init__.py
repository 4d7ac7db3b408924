"""Formats of other libraries: models are exported to them and imported from them."""
