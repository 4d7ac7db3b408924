"""Hubs: models downloaded from a hub of models, and uploaded to one."""
