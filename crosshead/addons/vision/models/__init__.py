"""Models that read images: one architecture, one file."""
