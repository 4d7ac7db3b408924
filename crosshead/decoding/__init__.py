"""Search through what a model finds probable; knows no model."""
