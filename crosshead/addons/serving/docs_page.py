"""The page of documentation: every operation of the server as plain HTML, without scripts."""

import json
import shlex
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

from crosshead.addons.serving.spec import GROUPS, Group, Operation, Value

_BEGIN = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>API documentation</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="page/style.css">
<script type="module" src="page/theme.mjs" blocking="render"></script>
</head>
<body class="docs">
<header>
  <h1>API documentation</h1>
  <a href="./">Translate</a>
</header>
<main>
<p>Programs use the server by the paths below.
<a href="spec">The same description for programs</a> is in Swagger 2.</p>
"""

_END = """</main>
</body>
</html>
"""


def docs_page(address: str, source: str, target: str, keys: bool) -> str:
    """Return the page."""
    names = {"SOURCE": source, "TARGET": target}
    sections = [_section(group, address, names, keys) for group in GROUPS]
    return "".join([_BEGIN, _contents(), *sections, _END])


def example(operation: Operation, address: str, names: Mapping[str, str], keys: bool) -> str:
    """Return a command that makes an example request, or an empty string."""
    if operation.example is None:
        return ""
    values: dict[str, Any] = {
        name: names.get(value, value) for name, value in operation.example.items()
    }
    words = ["curl", "-s", address + operation.path.removeprefix("/")]
    if keys and operation.key:
        words += ["-H", "Authorization: Bearer KEY"]
    places = {value.place for value in operation.values}
    if operation.method == "GET":
        words[2] += f"?{urlencode(values)}" if values else ""
    elif "json" in places:
        words += ["--json", json.dumps(values)]
    elif "file" in {value.kind for value in operation.values}:
        words += [word for name, value in values.items() for word in ("-F", f"{name}={value}")]
    else:
        words += [word for name, value in values.items() for word in ("-d", f"{name}={value}")]
    return shlex.join(words)


def _contents() -> str:
    """Return links to all operations."""
    lines = ['<nav aria-label="Paths"><ul>']
    for group in GROUPS:
        lines.append(f"<li>{escape(group.name)}<ul>")
        lines += [
            f'<li><a href="#{_anchor(each)}">{each.method} {escape(each.path)}</a></li>'
            for each in group.operations
        ]
        lines.append("</ul></li>")
    return "\n".join([*lines, "</ul></nav>", ""])


def _section(group: Group, address: str, names: Mapping[str, str], keys: bool) -> str:
    parts = [f"<section>\n<h2>{escape(group.name)}</h2>\n<p>{_prose(group.text)}</p>\n"]
    for operation in group.operations:
        name = f"{operation.method} {escape(operation.path)}"
        parts.append(f'<h3 id="{_anchor(operation)}"><code>{name}</code></h3>\n')
        parts.append(f"<p>{_prose(operation.summary)}")
        parts.append(" It needs a key.</p>\n" if keys and operation.key else "</p>\n")
        if operation.values:
            rows = [[f"<code>{escape(v.name)}</code>", _about(v)] for v in operation.values]
            parts.append(_table(f"Values of {name}", ("value", "meaning"), rows))
        answers = sorted(operation.answers.items())
        rows = [[f"<code>{status}</code>", _prose(text)] for status, text in answers]
        parts.append(_table(f"Answers of {name}", ("status", "meaning"), rows))
        if command := example(operation, address, names, keys):
            label = f'aria-label="Example of {name}"'
            code = f"<code>{escape(command)}</code>"
            parts.append(f'<pre class="wide" role="region" tabindex="0" {label}>{code}</pre>\n')
    return "".join([*parts, "</section>\n"])


def _about(value: Value) -> str:
    """Return the description of a value, in HTML."""
    words = [_prose(value.text)]
    if value.choices:
        choices = ", ".join(f"<code>{escape(each)}</code>" for each in value.choices)
        words.append(f"One of {choices}.")
    if value.kind not in ("", "string"):
        words.append(f"Type: {value.kind}.")
    if value.needed:
        words.append("<strong>Needed.</strong>")
    return " ".join(words)


def _table(caption: str, heads: tuple[str, str], rows: list[list[str]]) -> str:
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "\n".join(
        f'<tr><th scope="row">{first}</th><td>{second}</td></tr>' for first, second in rows
    )
    return (
        f'<table>\n<caption class="unseen">{caption}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"
    )


def _prose(text: str) -> str:
    """Return a sentence in HTML; what stands between backquotes is code."""
    pieces = escape(text, quote=False).split("`")
    return "".join(f"<code>{each}</code>" if n % 2 else each for n, each in enumerate(pieces))


def _anchor(operation: Operation) -> str:
    name = "".join(c if c.isalnum() else "-" for c in operation.path).strip("-")
    return f"{operation.method.lower()}-{name or 'page'}"
