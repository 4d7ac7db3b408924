"""SentencePiece models and vocabularies as OPUS-MT has them, without any foreign library."""

import io
from collections.abc import Sequence

import sentencepiece

PIECES = 400


def learned(
    lines: Sequence[str], pieces: int = PIECES, kind: str = "unigram", **settings: int
) -> bytes:
    """A SentencePiece model as OPUS-MT learns it, or with other settings."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=pieces, model_type=kind,
        minloglevel=2, num_threads=1, hard_vocab_limit=False, **settings,
    )  # fmt: skip
    return model.getvalue()


def marian_vocabulary(*models: bytes, more: Sequence[str] = ()) -> dict[str, int]:
    """The ids of all pieces as Marian counts them: the end first, padding last."""
    pieces = ["</s>", "<unk>", *more]
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        found = [processor.id_to_piece(n) for n in range(processor.vocab_size())]
        pieces += [piece for piece in found if piece not in {*pieces, "<s>", "</s>", "<unk>"}]
    return {piece: index for index, piece in enumerate([*pieces, "<pad>"])}
