"""Add-ons: each is a folder that could be deleted, and reaches the program by entry points."""
