"""Small untrained text bundles with tokenizers of characters."""

from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.models.registry import AnyConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer

SMALL = {"d_model": 8, "d_ff": 8, "heads": 2}


PAIRS = TransformerConfig(encoder_layers=1, decoder_layers=1, tie="none", **SMALL)


def bundle_of(
    source: str = "ab", target: str | None = "cde", model: AnyConfig = PAIRS, longest: int = 10
) -> TextBundle:
    """A bundle with a tokenizer of each side, or with one tokenizer if there is no target."""
    first = train_tokenizer(TokenizerConfig(kind="characters"), [source])
    second = (
        first if target is None else train_tokenizer(TokenizerConfig(kind="characters"), [target])
    )
    config = TextBundleConfig(
        task=model.task,
        model=model,
        joint_tokenizer=target is None,
        source_vocabulary=first.vocab_size,
        target_vocabulary=second.vocab_size,
        longest_source=longest,
    )
    return TextBundle(config, TextBundle.build(config), first, second)
