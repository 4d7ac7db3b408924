"""Small foreign models, written once for all tests of imports."""

from pathlib import Path

import pytest

from tests.addons.interop.imports import marian_directories as marian
from tests.addons.vision.captions import captions


@pytest.fixture(scope="session")
def spms() -> tuple[bytes, bytes]:
    """SentencePiece models of English and German captions, as OPUS-MT has them."""
    source, target = captions(1000)
    return marian.learned(source), marian.learned(target, kind="bpe")


def pairs_of(
    spms: tuple[bytes, bytes], vocabularies: list[dict[str, int]]
) -> list[tuple[list[int], list[int]]]:
    """Short pairs of captions as foreign ids."""
    sides = [
        marian.encoded(spm, ids, lines)
        for spm, ids, lines in zip(spms, vocabularies, captions(1000), strict=True)
    ]
    return [pair for pair in zip(*sides, strict=True) if max(map(len, pair)) < 24]


@pytest.fixture(scope="session")
def sources() -> list[str]:
    """Captions, and lines with what tokenizers trip over."""
    odd = [
        "",
        "  two  spaces ",
        "日本 unknown",
        "</s> in text",
        "a\u2581b",
        "½ and ﬁ",
        ">>fra<< tag",
    ]
    return [*captions(200 - len(odd), seed=2)[0], *odd]


@pytest.fixture(scope="session")
def shared(spms: tuple[bytes, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian with one vocabulary and one matrix for both sides."""
    ids = marian.marian_vocabulary(*spms, more=[">>deu<<"])
    pairs = pairs_of(spms, [ids, ids])
    model = marian.half_trained(marian.marian_config(len(ids)), pairs)
    return marian.write_directory(tmp_path_factory.mktemp("hf") / "shared", model, spms, [ids])


@pytest.fixture(scope="session")
def separate(spms: tuple[bytes, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian with a vocabulary and a matrix for each side; padding has one id in both."""
    both = [marian.marian_vocabulary(spm) for spm in spms]
    short, long = sorted(both, key=len)
    filler = [f"@@{n}" for n in range(len(long) - len(short))]
    del short["<pad>"]
    short |= {piece: len(short) + n for n, piece in enumerate([*filler, "<pad>"])}
    config = marian.marian_config(len(both[0]), len(both[1]), activation_function="relu")
    model = marian.half_trained(config, pairs_of(spms, both))
    return marian.write_directory(tmp_path_factory.mktemp("hf") / "separate", model, spms, both)
