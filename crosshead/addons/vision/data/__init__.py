"""Images, captions and pairs beside images."""
