"""Translation of raw text with a bundle."""

import copy
from collections.abc import Callable, Sequence
from typing import Protocol, Self, overload

from crosshead.bundle.base import Bundle
from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundleConfig
from crosshead.decoding.minimum_risk import MinimumRisk
from crosshead.decoding.search import DecodeConfig, Hypothesis
from crosshead.errors import ConfigError, DataError
from crosshead.models.base import AttentionKind
from crosshead.tasks.batched_search import TokenInputs, search_all
from crosshead.tasks.pipeline import AttentionInputs
from crosshead.tasks.translation.line_translator import (
    LineTranslator,
    TranslatedText,
    Translation,
)
from crosshead.tasks.translation.log_probs import (
    ScoredTranslation,
    checked_lines,
    encode_pairs,
    score_examples,
    why_too_long,
)
from crosshead.text.batching import Example, collate
from crosshead.text.documents.document import Document
from crosshead.text.documents.formats import parser_of
from crosshead.text.glossary import Glossary
from crosshead.text.parallel.languages import tag_of, tagged_languages
from crosshead.vocabulary import EOS


class Search(Protocol):
    """The search of an engine that is not the model itself."""

    def __call__(
        self, ids: Sequence[Sequence[int]], count: int, *, scored: bool,
        progress: Callable[[float], None],
    ) -> list[list[Hypothesis]]:  # fmt: skip
        """Return `count` hypotheses of each source, best first. See `Translator.translate`."""
        ...


class Translator(LineTranslator):
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

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self.engine: Callable[[Translator, DecodeConfig], Search | None] | None = None
        languages = self.bundle.config.target_languages
        if languages:
            self.tag = tag_of(languages[0]) if len(languages) == 1 else None

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

    def into(self, language: str) -> Self:
        """Return this translator for a target language of a model of several directions.

        Args:
            language: The language code.

        Raises:
            ConfigError: If the model does not translate to this language.
        """
        languages = self.bundle.config.target_languages
        if not languages and language == self.bundle.config.target_language:
            return self
        if language not in languages:
            own = self.bundle.config.target_language
            knows = " and ".join(languages or ([own] if own else []))
            raise ConfigError(
                f"this model does not translate to {language!r}; "
                + (
                    f"it translates to {knows}"
                    if knows
                    else "the languages of its one direction are not stated"
                )
                + (": choose one of them" if len(languages) > 1 else ": leave the language out")
            )
        return self._with(tag_of(language))

    @property
    def target_language(self) -> str | None:
        """The language that is translated to, if it is known."""
        chosen = tagged_languages([self.tag or ""])
        return chosen[0] if chosen else self.bundle.config.target_language

    def of_tagged_lines(self) -> Self:
        """Return this translator for lines that already begin with a tag, if they need one."""
        return self._with("")

    def _with(self, tag: str) -> Self:
        chosen = copy.copy(self)
        chosen.tag = tag
        return chosen

    @overload
    def __call__(self, text: str) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, text: Sequence[str]) -> list[str]: ...

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        """Return the best translation of a text, line by line, or of each line in a list.

        The translation of a text has as many lines as the text. In a list, each item is one line
        with one line of translation, and a line break inside it is white space.

        Args:
            text: A text, or a list of lines.

        Raises:
            TypeError: If `text` is neither.
        """
        if isinstance(text, str):
            return "\n".join(self(text.split("\n")))
        return [translations[0].text for translations in self.translate(text, scored=False)]

    def translate(
        self,
        lines: Sequence[str],
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        risk: MinimumRisk | None = None,
        glossary: Glossary | None = None,
        first: int = 0,
        scored: bool = True,
        progress: Callable[[float], None] = lambda share: None,
    ) -> list[list[Translation]]:
        """Translate lines.

        A blank line has one empty translation. A line longer than the longest training source is
        split at sentence ends, translated in parts and joined again. The model does not see white
        space around lines and parts. This white space is put around the translations, except for
        line breaks. A line with more than `LONGEST_STRETCH` characters without a space or the end
        of a clause is passed through: its only translation is the line itself. The translation of a
        line does not depend on other lines. Samples depend on the line's number.

        Args:
            lines: The lines.
            decode: The settings of the search, by default the bundle's.
            n_best: The number of translations per line.
            risk: If given, samples are drawn, and the best one is the sample with the lowest Bayes
                risk: the highest mean utility against all samples. This needs `decode.sample`. Each
                part of a split line is chosen by itself.
            glossary: Terms and the translations that they must have.
            first: The number of the first line, for samples.
            scored: False if nobody reads the log-probabilities of pieces. An engine that must
                compute them afterwards then gives NaN.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The translations of each line, best first, for all lines in order. A list is shorter
            than `n_best` if the vocabulary offers no more, or if fewer different samples were
            drawn for `risk`.

        Raises:
            TypeError: If `lines` is not a list of texts, for example a single text.
            ConfigError: If `risk` is given without `decode.sample`, or `n_best` is larger than its
                number of samples.
        """
        decode = decode or self.bundle.config.decode
        if risk is not None:
            _check_risk(risk, decode, n_best)
        lines = checked_lines(lines)
        planned = self.planned(lines, first, glossary)
        count = n_best if risk is None else risk.samples
        if self.engine and (search := self.engine(self, decode)):
            hypotheses = search(planned.ids, count, scored=scored, progress=progress)
        else:
            hypotheses = search_all(
                self.model,
                TokenInputs(planned.ids),
                self.bundle.specials,
                decode,
                count,
                numbers=planned.numbers,
                most=self.most_positions[1],
                progress=progress,
            )
        if risk is None:
            return self.joined(lines, planned, hypotheses, n_best, decode)
        chosen = [self.by_utility(samples, risk.utility) for samples in hypotheses]
        return self.joined(lines, planned, chosen, n_best, decode=None)

    def translate_document(
        self,
        text: str,
        format: str = "text",
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        risk: MinimumRisk | None = None,
        glossary: Glossary | None = None,
        progress: Callable[[float], None] = lambda share: None,
    ) -> TranslatedText:
        """Translate a document sentence by sentence, and keep its markup, as the server does.

        Args:
            text: The document.
            format: `text` (lines and their sentences), `markdown`, `html` or `srt` (subtitles).
            decode: The settings of the search, by default the bundle's.
            n_best: The largest number of translations of the document. The n-th consists of the
                n-th translations of its sentences.
            risk: As in `translate`, for each sentence.
            glossary: As in `translate`.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The translated document, with its sentences.

        Raises:
            ConfigError: If the format is unknown, or as in `translate`.
            DataError: If the document is broken.
        """
        document = Document.of(text, parser_of(format), self.source_language, self.target_language)
        found = self.translate(
            document.sentences, decode=decode, n_best=n_best, risk=risk, glossary=glossary,
            progress=progress,
        )  # fmt: skip
        return TranslatedText.of(document, found, n_best)

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


def _check_risk(risk: MinimumRisk, decode: DecodeConfig, n_best: int) -> None:
    """Check that a search for the lowest Bayes risk has samples, and enough of them."""
    if not decode.sample:
        raise ConfigError(
            f"minimum Bayes risk chooses among samples, found sample = false and beam = "
            f"{decode.beam}; set sample = true and beam = 1"
        )
    if n_best > risk.samples:
        raise ConfigError(
            f"{risk.samples} samples are too few for {n_best} translations: draw {n_best} or more"
        )
