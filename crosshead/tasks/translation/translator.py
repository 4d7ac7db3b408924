"""Translation of raw text with a bundle."""

from collections.abc import Callable, Sequence
from functools import partial

from crosshead.attention.attend import Attention
from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, DataError
from crosshead.models.base import AttentionKind, TokenModel
from crosshead.tasks.batched_search import TokenInputs, search_all
from crosshead.tasks.pipeline import AttentionInputs
from crosshead.tasks.token_loss import guided_head
from crosshead.tasks.translation.engine import OWN, SUITED, Search, packages_engines
from crosshead.tasks.translation.line_pipeline import LinePipeline
from crosshead.tasks.translation.line_translator import PlannedLines
from crosshead.tasks.translation.log_probs import (
    ScoredTranslation,
    encode_pairs,
    score_examples,
    why_too_long,
)
from crosshead.tasks.translation.text_translator import TextTranslator, checked_lines
from crosshead.text.batching import Example, collate
from crosshead.vocabulary import EOS


class Translator(TextTranslator, LinePipeline):
    """Translates lines of raw text with a bundle's model.

    A call translates a text or a list of lines with the bundle's search settings. `translate` takes
    other settings and returns more about each line. The model (`translator.model`, a plain
    `torch.nn.Module`) may be moved to another device. `into` chooses the language of a model of
    several directions.

    Args:
        bundle: The bundle of a model that translates.
    """

    does, verb = "translates", "translate"
    usage = "Translate with: {command} {bundle} FILE"

    bundle: TextBundle

    def __init__(self, bundle: TextBundle) -> None:
        LinePipeline.__init__(self, bundle)
        TextTranslator.__init__(self, bundle)
        self.engine: Callable[[Translator, DecodeConfig], Search | None] | None = None

    @classmethod
    def usage_of(cls, config: TextBundleConfig) -> str:
        """Return `usage`, with `--to` for a model of several directions.

        Args:
            config: The configuration of the bundle.
        """
        if len(config.target_languages) < 2:
            return cls.usage
        first, *others = config.target_languages
        return f"{cls.usage} --to {first}  # or {', '.join(others)}"

    def searcher(self, planned: PlannedLines, decode: DecodeConfig, scored: bool) -> Search:
        """Return the search of the engine, if it suits, or of the model.

        Args:
            planned: The parts of lines.
            decode: The settings of the search.
            scored: False if nobody reads the log-probabilities of pieces.
        """
        attentions = (each for each in self.model.modules() if isinstance(each, Attention))
        is_watched = any(each.backend for each in attentions)  # by somebody who looks inside
        if self.engine and not is_watched and (search := self.engine(self, decode)):
            return search._replace(find=partial(search.find, planned.ids, scored=scored))
        find = partial(
            search_all,
            self.model,
            TokenInputs(planned.ids),
            self.bundle.specials,
            decode,
            numbers=planned.numbers,
            most=self.most_positions[1],
        )
        return Search(OWN, find)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        first: int = 0,
        progress: Callable[[float], None] = lambda share: None,
    ) -> list[ScoredTranslation]:
        """Return the log-probability of each target as a translation of its source, in order.

        As in translation, the model does not see white space around lines. Nothing is split, left
        out or smoothed.

        Args:
            sources: The source lines.
            targets: The target lines.
            first: The number of pairs before these, for messages.
            progress: A callback that gets the finished share, from 0 to 1.

        Raises:
            TypeError: If a side is not a list of texts.
            DataError: If the lists differ in length, or a side of a pair is too long.
        """
        examples = self.examples(sources, targets, first=first)
        return score_examples(self.model, self.bundle, examples, progress)

    def examples(
        self, sources: Sequence[str], targets: Sequence[str], *, first: int = 0
    ) -> list[Example]:
        """Return the token ids of sources and targets.

        Args:
            sources: The source lines.
            targets: The target lines.
            first: The number of pairs before these, for messages.

        Raises:
            TypeError: If a side is not a list of texts.
            DataError: If the lists differ in length, or a side has more than `LONGEST_SCORED`
                tokens or more than the model has positions.
        """
        examples = encode_pairs(self.bundle, self.with_tag(checked_lines(sources)), targets)
        for why in why_too_long(self.most_positions, examples, first).values():
            raise DataError(f"{why}; split both sides of the pair into sentences")
        return examples

    def refusals(
        self, sources: Sequence[str], targets: Sequence[str], *, first: int = 0
    ) -> dict[int, str]:
        """Return why `score` would refuse pairs, by their rows from 0.

        Args:
            sources: The source lines.
            targets: The target lines.
            first: The number of pairs before these, for messages.

        Raises:
            TypeError: If a side is not a list of texts.
            DataError: If the lists differ in length.
        """
        examples = encode_pairs(self.bundle, self.with_tag(checked_lines(sources)), targets)
        return why_too_long(self.most_positions, examples, first)

    def attention_inputs(
        self, text: str, target: str | None, kind: AttentionKind
    ) -> AttentionInputs:
        """Return a source and its target for teacher forcing.

        The target is by default the model's translation.
        """
        if kind == "encoder":
            if target is not None:
                raise ConfigError("the encoder does not see the target; leave the target out")
            target = ""
        elif target is None:
            [best] = self.translate([text])[0]
            if best.was_split:
                raise DataError(
                    "the text is longer than the model translates in one piece; give a single "
                    "sentence"
                )
            target = best.text
        bundle = self.bundle
        examples = self.examples([text], [target])
        [(source_ids, target_ids)] = examples
        batch = collate(examples, [0], bundle.specials.start).to(self.device)
        source = bundle.source_tokenizer.pieces([*source_ids, EOS])
        pieces = bundle.target_tokenizer.pieces
        if kind == "encoder":
            return AttentionInputs(batch.inputs, source, source)
        if kind == "decoder":
            read = pieces([bundle.specials.start, *target_ids])
            return AttentionInputs(batch.inputs, read, read)
        return AttentionInputs(batch.inputs, pieces([*target_ids, EOS]), source)

    def facts(self) -> list[list[str]]:
        """Return the facts of a pipeline of lines, the taught head and the engine that suits."""
        decode, engines = self.bundle.config.decode, packages_engines(SUITED)
        suited = [name for name, each in engines.items() if each.suits(self, decode)]
        taught = []
        if self.bundle.config.guided and isinstance(self.model, TokenModel):
            layer, head = guided_head(self.model)
            where = f"layer {layer}, head {head} of the cross-attention, by a word aligner"
            taught = [["taught head", where]]
        return [*super().facts(), *taught, ["engine", [*suited, OWN][0]]]

    @classmethod
    def words(cls, config: TextBundleConfig) -> Words:
        """Return the words of a model card."""
        sides = (("from", config.source_language), ("to", config.target_language))
        known = [f" {word} `{code}`" for word, code in sides if code]
        tags = config.target_languages
        if tags:
            known = [f" to {' and '.join(f'`{code}`' for code in tags)}"]
        chosen = f".into({tags[0]!r})" if tags else ""
        return Words(
            does="translates" + ("".join(known) or " from one language to another"),
            hub_task="translation",
            command="crosshead translate DIR input.txt" + (f" --to {tags[0]}" if tags else ""),
            variable="translate",
            call=f'translate{chosen}(["A first line.", "Another."])',
            scored="Search",
            languages=[config.source_language, config.target_language, *tags],
        )
