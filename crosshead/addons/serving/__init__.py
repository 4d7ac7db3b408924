"""The server: requests in, translations out, in one running batch of sentences."""
