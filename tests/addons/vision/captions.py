"""Captions in English and German by a small grammar: text for tests that need no data set."""

import random

WORDS = {
    "count": "two/zwei three/drei four/vier some/einige many/viele seven/sieben young/junge",
    "kind": "small/kleine big/große happy/fröhliche old/alte tired/müde brown/braune quiet/stille",
    "who": "dogs/Hunde cats/Katzen women/Frauen men/Männer boys/Jungen girls/Mädchen kids/Kinder "
    "singers/Sänger painters/Maler horses/Pferde birds/Vögel players/Spieler teachers/Lehrer",
    "act": "sit/sitzen run/rennen play/spielen stand/stehen sleep/schlafen wait/warten "
    "jump/springen sing/singen dance/tanzen walk/gehen work/arbeiten laugh/lachen",
    "near": "in/in near/bei behind/hinter before/vor",
    "where": "parks/Parks houses/Häusern gardens/Gärten bridges/Brücken shops/Läden cars/Autos "
    "windows/Fenstern mountains/Bergen rivers/Flüssen trees/Bäumen schools/Schulen",
    "of": "of/von",
    "and": "and/und",
}
"""Words and their translations, by their part of a caption."""

SHAPES = ("count who act .", "count kind who act near where .", "kind who act near where of NAME .",
          "NAME and count who act , and NAME near where act .")  # fmt: skip
"""The orders of the parts. A name is made of syllables, and is the same in both languages."""

_SYLLABLES = [consonant + vowel for consonant in "bdfghklmnprstvwz" for vowel in "aeiou"]


def captions(count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Return English captions and their German translations; one seed gives the same captions."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        pairs = []
        for part in rng.choice(SHAPES).split():
            name = "".join(rng.choices(_SYLLABLES, k=3)).title() if part == "NAME" else part
            pairs.append(
                rng.choice(WORDS[part].split()).split("/") if part in WORDS else [name] * 2
            )
        texts = [
            " ".join(side).replace(" ,", ",").replace(" .", ".")
            for side in zip(*pairs, strict=True)
        ]
        found.append([text[0].upper() + text[1:] for text in texts])
    english, german = (list(side) for side in zip(*found, strict=True))
    return english, german
