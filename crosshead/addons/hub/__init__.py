"""Hubs: bundles uploaded to a hub of models."""
