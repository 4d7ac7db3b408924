import math

from crosshead.addons.studies.classifiers import KINDS, SIZES
from crosshead.addons.studies.effort import FULL, QUICK
from crosshead.addons.studies.vision import (
    BANDS,
    FEW,
    MANY,
    NARROWS,
    REST,
    STEM,
    TIME,
    accuracy_table,
    measured,
)

ACCURACIES = {
    "patch": (30.0, 40.0, 55.0),
    "stem": (36.0, 50.0, 66.0),
    "convnet": (40.0, 55.0, 60.0),
}
FOUND = {
    (kind, size): accuracy
    for kind, values in ACCURACIES.items()
    for size, accuracy in zip(SIZES, values, strict=True)
}


def test_quantities_compare_what_their_names_say() -> None:
    found = measured(FOUND, SIZES, 1.5, FULL)
    assert set(found) == {band.name for band in BANDS}
    assert (found[FEW], found[MANY], found[NARROWS]) == (10, 5, 2)
    assert (found[STEM], found[REST], found[TIME]) == (11, -6, 1.5)


def test_a_difference_that_is_not_there_cannot_narrow() -> None:
    found = measured({**FOUND, ("convnet", SIZES[0]): 32.0}, SIZES, 1.5, FULL)
    assert found[FEW] == 2 and found[NARROWS] == "the network is not ahead with few images"
    found = measured({**FOUND, ("convnet", SIZES[0]): 30.0}, SIZES, 1.5, FULL)
    assert found[FEW] == 0 and isinstance(found[NARROWS], str)


def test_a_difference_that_changes_its_sign_narrows() -> None:
    found = measured({**FOUND, ("convnet", SIZES[-1]): 50.0}, SIZES, 1.5, FULL)
    assert found[MANY] == -5 and found[NARROWS] == math.inf


def test_a_few_updates_measure_nothing() -> None:
    assert all(isinstance(each, str) for each in measured(FOUND, SIZES, 1.5, QUICK).values())


def test_the_table_has_a_column_for_each_number_of_images() -> None:
    head, *rows = accuracy_table(FOUND, SIZES).rows
    assert head == ["model", "1,000 images", "3,000 images", "9,000 images"]
    assert rows[2] == ["convolutional network", "40.0", "55.0", "60.0"]
    assert [row[0] for row in rows] == [each.name for each in KINDS.values()]
