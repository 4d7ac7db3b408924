"""Captions in English and German by a small grammar: text for tests that need no data set."""

import random

GRAMMAR = {
    "count": "two/zwei three/drei four/vier some/einige many/viele seven/sieben young/junge",
    "kind": "small/kleine big/große happy/fröhliche old/alte tired/müde brown/braune quiet/stille",
    "who": "dogs/Hunde cats/Katzen women/Frauen men/Männer boys/Jungen girls/Mädchen kids/Kinder "
    "singers/Sänger painters/Maler horses/Pferde birds/Vögel players/Spieler teachers/Lehrer",
    "act": "sit/sitzen run/rennen play/spielen stand/stehen sleep/schlafen wait/warten "
    "jump/springen sing/singen dance/tanzen walk/gehen work/arbeiten laugh/lachen",
    "near": "in/in near/bei behind/hinter before/vor",
    "where": "parks/Parks houses/Häusern gardens/Gärten bridges/Brücken shops/Läden cars/Autos "
    "windows/Fenstern mountains/Bergen rivers/Flüssen trees/Bäumen schools/Schulen",
}
"""Words and their translations, by their part of a caption."""

SHAPES = ("count who act .", "count kind who act near where .", "kind who act near where of NAME .",
          "NAME and count who act , and NAME near where act .")  # fmt: skip
"""The orders of the parts. A name is made of syllables, and is the same in both languages."""

_WORDS = {
    part: [tuple(pair.split("/")) for pair in pairs.split()] for part, pairs in GRAMMAR.items()
}
_SAME = {"of": "von", "and": "und"}
_SYLLABLES = [consonant + vowel for consonant in "bdfghklmnprstvwz" for vowel in "aeiou"]


def captions(count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Return English captions and their German translations; one seed gives the same captions."""
    rng = random.Random(seed)

    def words(part: str) -> tuple[str, str]:
        if part == "NAME":
            name = "".join(rng.choices(_SYLLABLES, k=3)).title()
            return name, name
        english, german = (
            rng.choice(_WORDS[part]) if part in _WORDS else (part, _SAME.get(part, part))
        )
        return english, german

    pairs = [[words(part) for part in rng.choice(SHAPES).split()] for _ in range(count)]
    english, german = (
        [_sentence([word[side] for word in pair]) for pair in pairs] for side in (0, 1)
    )
    return english, german


def _sentence(words: list[str]) -> str:
    text = " ".join(words).replace(" ,", ",").replace(" .", ".")
    return text[0].upper() + text[1:]
