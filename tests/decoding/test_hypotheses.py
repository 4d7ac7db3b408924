import pytest

from crosshead.decoding.hypotheses import Specials


def test_eos_cannot_be_forbidden() -> None:
    with pytest.raises(ValueError, match="eos"):
        Specials(start=1, eos=0, forbidden=(2, 0))
