"""Data to ids and batches. Imports no model."""
