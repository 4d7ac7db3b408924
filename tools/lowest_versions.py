"""Print the lowest versions that pyproject.toml allows, as constraints of pip.

The list covers the dependencies of the package and of its extras, except for the extras `dev` and
`docs`, which run the tests and build the site.
"""

import re
import sys
import tomllib
from pathlib import Path

TOOLS = {"dev", "docs"}
REQUIREMENT = re.compile(r"(?P<name>[\w-]+)>=(?P<version>[\w.]+)")


def lowest_versions(text: str) -> list[str]:
    """Return a line `name==version` for each requirement of the pyproject.toml with this text.

    Raises:
        ValueError: If a requirement states no lowest version, or one name has two.
    """
    project = tomllib.loads(text)["project"]
    extras = project.get("optional-dependencies", {})
    lists = [project["dependencies"], *(extras[name] for name in extras if name not in TOOLS)]
    lowest: dict[str, str] = {}
    own_extra = f"{project['name']}["  # an extra that includes others, listed here themselves
    for requirement in (line for lines in lists for line in lines):
        if requirement.startswith(own_extra):
            continue
        found = REQUIREMENT.match(requirement)
        if not found:
            raise ValueError(f"expected name>=version, found {requirement!r}")
        name, version = found["name"], found["version"]
        if lowest.setdefault(name, version) != version:
            raise ValueError(f"{name} has two lowest versions: {lowest[name]} and {version}")
    return [f"{name}=={version}" for name, version in sorted(lowest.items())]


if __name__ == "__main__":
    pyproject = Path(__file__).resolve().parent.parent / "pyproject.toml"
    sys.stdout.write("\n".join(lowest_versions(pyproject.read_text(encoding="utf-8"))) + "\n")
