import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crosshead.recipe.presets import PRESETS
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.toml import to_toml
from crosshead.tasks.recipes import compose

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
awkward = text | st.sampled_from(
    ["\\", '"', "'''", '"""', "a\\n", "\x00\x1f\x7f", "\u2028\x85", "#"]
)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    names = draw(st.lists(awkward.filter(lambda name: "\0" not in name), max_size=3))
    train: dict[str, Any] = {
        "device": draw(awkward),
        "adam_eps": draw(st.floats(1e-30, 1)),
        "clip_norm": draw(st.floats(0, 1e9)),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "metric": draw(st.sampled_from(["bleu", "loss"])),
    }
    schedule = draw(st.sampled_from(["paper", "inverse-sqrt"]))
    train["schedule"] = schedule
    if schedule == "inverse-sqrt":
        train["learning_rate"] = draw(st.floats(min_value=1e-300, max_value=1000))
    budgets = {
        "max_updates": st.integers(1, 10**9),
        "max_epochs": st.integers(1, 10**9),
        "max_minutes": st.floats(1e-300, 1e8),
    }
    for name in draw(st.sets(st.sampled_from(sorted(budgets)))):
        train[name] = draw(budgets[name])
    model = {
        "d_key": draw(st.integers(1, 99)),
        "output_bias": draw(st.booleans()),
        "dropout": draw(st.floats(1 / 256, 255 / 256)),
    }
    data = {"source": names, "target": names, "drop_duplicates": draw(st.booleans())}
    layers = {"data": data, "model": model, "train": train}
    return compose(draw(st.sampled_from(sorted(PRESETS["transformer"]))), layers)


@settings(max_examples=60, deadline=None)
@given(recipe=recipes())
def test_a_recipe_written_as_toml_is_read_back_equal(recipe: Recipe) -> None:
    written = to_toml(recipe).encode()
    assert compose(recipe=tomllib.loads(written.decode())) == recipe
