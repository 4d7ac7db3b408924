"""Documents as text to translate and markup to keep."""
