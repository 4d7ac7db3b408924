"""A whole run as one value."""
