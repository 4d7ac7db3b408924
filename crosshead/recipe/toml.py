"""Write recipes as TOML."""

from typing import Any

from crosshead.recipe.recipe import Recipe


def to_toml(recipe: Recipe) -> str:
    """Return the recipe as TOML, from which `compose` makes an equal recipe.

    Unset keys are left out.
    """
    lines = []
    for section, values in recipe.model_dump().items():
        lines.append(f"[{section}]")
        lines += [
            f"{key} = {toml_value(value)}" for key, value in values.items() if value is not None
        ]
        lines.append("")
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(
            f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c
            for c in value.replace("\\", "\\\\").replace('"', '\\"')
        )
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    return repr(value)
