"""Text to ids and batches; knows no model."""
