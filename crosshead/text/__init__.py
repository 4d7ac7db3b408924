"""Text: tokenizers, documents, batches of ids, pairs of texts and their storage."""
