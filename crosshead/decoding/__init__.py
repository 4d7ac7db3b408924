"""Search over the `Decodable` protocol: greedy, beam search and sampling. Imports no model."""
