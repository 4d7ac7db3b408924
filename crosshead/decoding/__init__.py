"""Search: greedy, beam search and sampling over the `Decodable` protocol; imports no model."""
