"""Translation with an ensemble: several bundles that predict each token together."""

from collections.abc import Mapping
from dataclasses import replace

from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import BundleError
from crosshead.models.base import decodable
from crosshead.models.ensemble import Ensemble
from crosshead.tasks.translation.line_translator import MostPositions
from crosshead.tasks.translation.translator import Translator


class EnsembleTranslator(Translator):
    """Translates with several bundles: each token by the mean of the models' distributions.

    Its methods are those of a `Translator`. The search settings are those of the first bundle. A
    line is split if it is too long for any of the models. The models (`translator.model.members`)
    may differ in architecture and size, but not in their tokenizers.

    Args:
        bundles: The bundles by name, for messages.

    Raises:
        BundleError: If the tokenizers or the start tokens of two bundles differ.
    """

    def __init__(self, bundles: Mapping[str, TextBundle]) -> None:
        first, *_ = bundles.values()
        for name, bundle in bundles.items():
            _check_alike(next(iter(bundles)), first, name, bundle)
        longest = min(bundle.config.longest_source for bundle in bundles.values())
        config = first.config.model_copy(update={"longest_source": longest})
        ensemble = Ensemble([decodable(bundle.model) for bundle in bundles.values()])
        super().__init__(replace(first, config=config, model=ensemble.eval()))
        self._configs = [bundle.config.model for bundle in bundles.values()]

    def __repr__(self) -> str:
        """Return a short description, for a notebook."""
        shapes = "; ".join(f"{each.architecture}, {each.shape()}" for each in self._configs)
        return f"<{type(self).__name__}: {len(self._configs)} models: {shapes}; on {self.device}>"

    @property
    def most_positions(self) -> MostPositions:
        """The largest number of positions of a source and of a target in every model."""
        sources = [each.most_source for each in self._configs if each.most_source is not None]
        targets = [each.most_positions for each in self._configs if each.most_positions is not None]
        return min(sources, default=None), min(targets, default=None)


def _check_alike(first: str, expected: TextBundle, name: str, found: TextBundle) -> None:
    """Check that two bundles of an ensemble read and write the same ids."""
    differences = expected.tokenizer_differences(found)
    if differences:
        sides = " and ".join(f"{side} ({clause})" for side, clause in differences.items())
        if expected.config.joint_tokenizer and found.config.joint_tokenizer:
            sides = f"both sides ({differences['target']})"
        raise BundleError(
            f"{name}: its tokenizer differs from the tokenizer of {first}, for {sides}; an "
            "ensemble needs models with the same tokenizers: train them on the same training and "
            "validation files with the same [tokenizer]"
        )
    targets = [" and ".join(each.config.target_languages) or "one" for each in (found, expected)]
    if targets[0] != targets[1]:
        raise BundleError(
            f"{name}: its tags are of the target languages {targets[0]}, but those of {first} of "
            f"{targets[1]}; an ensemble needs models with the same directions"
        )
    starts = [bundle.config.model.start_token for bundle in (expected, found)]
    if starts[0] != starts[1]:
        raise BundleError(
            f"{name}: its targets start with token {starts[1]}, but those of {first} with token "
            f"{starts[0]}; an ensemble needs models with the same start token (model.start)"
        )
