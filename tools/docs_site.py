"""Complete the documentation site: the hooks of MkDocs and an extension of Griffe (mkdocs.yml).

- Markdown files outside docs/ become pages: README.md is the first one.
- Every public module of the packages in `DOCUMENTED` gets a page with its docstrings.
- The page on configuration ends with what `crosshead recipe --explain` prints.
- Links between files of the repository become links between pages. A link to a module, such as
  `../crosshead/attention/attend.py#attend`, leads to that name in the reference. If the reference
  has no such name, MkDocs warns, and `make docs` fails.
- A page that would load a script, a style or a picture from another server fails the build.
"""

import re

import griffe
from docs_pages import PAGES, ROOT, navigation, reference, relinked
from markdown import Extension, Markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from crosshead.recipe.reference import reference as keys_of_recipes

ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|link rel=.?stylesheet)[^>]*(?:src|href)=.?https?://[^>]*"
)
"""A part that a browser loads from another server."""


class ModuleState(griffe.Extension):
    """Leave attributes that `__init__` sets without a docstring out of the reference."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: object) -> None:
        """Mark such an attribute as not public; fields of a class body stay."""
        is_set_in_init = attr.labels == {"instance-attribute"} and attr.value is not None
        if is_set_in_init and not attr.has_docstring:
            attr.public = False


class _NestedByTwo(Extension):
    """Nest lists by two spaces, as GitHub and editors do; Python-Markdown asks for four."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Set the width of an indentation."""
        md.tab_length = 2


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Nest lists as GitHub does, and put the modules of the reference into the navigation."""
    config.markdown_extensions.append(_NestedByTwo())
    for entry in config.nav or []:
        if "Reference" in entry:
            entry["Reference"] = ["reference/index.md", *navigation()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for path, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    for page, text in reference().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files into links between pages, and add the keys of recipes."""
    if page.file.src_uri == "configuration.md":
        markdown += f"\n## Every key\n\n```text\n{keys_of_recipes()}```\n"
    return relinked(markdown, page.file.src_uri)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> None:
    """Raise `PluginError` if a browser would load a part of the page from another server."""
    if found := ELSEWHERE.search(output):
        raise PluginError(
            f"{page.file.src_uri}: {found[0]}> loads from another server; add the file"
        )
