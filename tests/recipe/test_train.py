from tests.recipe.refusing import refusal


def test_settings_that_contradict_each_other_are_refused() -> None:
    assert "learning_rate" in refusal("train.schedule=paper", "train.learning_rate=0.1")
    assert "learning_rate" in refusal("train.learning_rate=0.1", preset="base")
    assert "learning_rate" in refusal("train.schedule=inverse-sqrt", preset="base")


def test_a_cosine_that_the_preset_does_not_have_needs_an_end() -> None:
    assert "needs max_updates" in refusal("schedule=cosine", "train.max_minutes=7")
