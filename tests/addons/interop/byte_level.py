"""GPT-2's tokenizer, learned from a few lines by the library that transformers uses."""

from collections.abc import Iterable
from typing import Any

import tokenizers

END = "<|endoftext|>"


def byte_level(lines: Iterable[str], pieces: int = 300) -> Any:
    """Byte-level BPE of this many pieces; the end of a text is the last one, as in GPT-2."""
    found = tokenizers.Tokenizer(tokenizers.models.BPE())
    found.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    found.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=pieces - 1,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    found.train_from_iterator(lines, trainer)
    found.add_special_tokens([END])
    return found
