"""Pairs of texts: read, filtered, held out, stored."""
