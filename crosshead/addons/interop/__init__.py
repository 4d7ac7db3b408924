"""Formats of other libraries: trained models are exported to them, one module a format."""
