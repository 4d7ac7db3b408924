"""The average of the last checkpoints: what it is the mean of, and when a run takes it."""

from pathlib import Path

import pytest
import torch

from crosshead.bundle.weights import weights_of
from crosshead.tasks.registry import load_bundle
from crosshead.tasks.translation import TranslationValidator
from crosshead.tasks.validation import Validation
from crosshead.training.checkpoint import list_checkpoints, load_weights
from crosshead.training.run import train
from tests.training.runs import logged, recipe_for


@pytest.mark.parametrize(("loss", "is_best"), [(0.5, True), (2.5, False)])
def test_the_average_is_of_every_checkpoint_that_it_names(
    loss: float, is_best: bool, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the mean of the last three, and the bundle holds it where it validates best."""
    losses = iter([3.0, 2.0, 2.2, loss])  # of updates 6, 12, 18 and of the average

    def validate(validator: TranslationValidator, weights: dict[str, torch.Tensor]) -> Validation:
        found = next(losses)
        return Validation({"loss": found, "nll": found, "bleu": 0.0})

    monkeypatch.setattr(TranslationValidator, "validate", validate)
    out = tmp_path / "run"
    train(recipe_for(text, "train.metric=loss"), out)
    several = [load_weights(place) for place in list_checkpoints(out / "checkpoints")]
    mean = {name: torch.stack([w[name] for w in several]).mean(dim=0) for name in several[0]}
    found = weights_of(load_bundle(out).model)
    expected = mean if is_best else several[1]
    torch.testing.assert_close({name: found[name] for name in expected}, expected)
    (average,) = (line for line in logged(out) if line["kind"] == "average")
    assert (average["loss"], average["best"]) == (loss, is_best)
    where = "updates 6 to 18" if is_best else "at update 12"
    assert where in logged(out)[-1]["weights"]
