"""The base of pipelines that translate lines with the model of a bundle."""

from functools import cached_property

from crosshead.bundle.text_bundle import TextBundle
from crosshead.decoding.settings import search_name
from crosshead.models.base import SequenceModel, decodable
from crosshead.tasks.pipeline import TextPipeline
from crosshead.tasks.translation.alignment import AttentionAlignments
from crosshead.tasks.translation.line_translator import LineTranslator, MostPositions


class LinePipeline(LineTranslator, TextPipeline):
    """The base of pipelines that translate lines."""

    bundle: TextBundle

    @property
    def model(self) -> SequenceModel:
        """The bundle's model."""
        return decodable(self.bundle.model)

    @property
    def most_positions(self) -> MostPositions:
        """The largest number of positions of a source and of a target, or None without a limit."""
        config = self.bundle.config.model
        return config.most_source, config.most_positions

    @cached_property
    def alignments(self) -> AttentionAlignments:
        """The alignments of the model."""
        return AttentionAlignments(self.bundle)

    def facts(self) -> list[list[str]]:
        """Return tokenizers, languages, the longest source and the search settings."""
        longest = min(self.bundle.config.longest_source, self.max_source_length)
        return [
            *super().facts(),
            [
                "longest line",
                f"{longest} tokens; a longer line is split into its sentences, and a sentence of "
                f"more than {self.max_source_length} tokens is cut",
            ],
            ["search", search_name(self.bundle.config.decode)],
        ]
