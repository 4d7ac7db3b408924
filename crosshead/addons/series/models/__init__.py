"""Forecasters: one architecture, one file."""
