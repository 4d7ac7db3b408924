"""Complete the documentation site: the hooks of MkDocs and an extension of Griffe (mkdocs.yml).

- Markdown files outside docs/ become pages: README.md is the first one.
- Every public module of the packages in `DOCUMENTED` gets a page with its docstrings.
- The page on configuration ends with what `crosshead recipe --explain` prints.
- Notebooks of the course are run, and become pages with what their cells print and draw.
- Formulas between dollar signs become MathML, which browsers typeset without a script.
- Links between files of the repository become links between pages. A link to a module, such as
  `../crosshead/attention/attend.py#attend`, leads to that name in the reference. If the reference
  has no such name, MkDocs warns, and `make docs` fails.
- A page that would load a script, a style or a picture from another server fails the build.
"""

import re

import griffe
from course import NOTEBOOKS, course_page
from docs_pages import PAGES, ROOT, navigation, parts_elsewhere, reference, relinked
from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from crosshead.recipe.reference import reference as keys_of_recipes


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


class _Formula(InlineProcessor):
    """A formula of LaTeX: `$...$` within a line, or `$$...$$` on lines of its own."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:
        """Return the place of the MathML, which later steps leave as it is."""
        math = convert(m[2], display="block" if m[1] == "$$" else "inline")
        return self.md.htmlStash.store(math), m.start(), m.end()


class _Formulas(Extension):
    """Typeset formulas."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Look for formulas behind code and before escapes."""
        pattern = r"(\$\$?)(?!\s)(.+?)(?<!\s)\1"
        md.inlinePatterns.register(_Formula(pattern, md), "formula", 185)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the extensions of Markdown, and put the modules of the reference into the navigation."""
    config.markdown_extensions += [_NestedByTwo(), _Formulas()]
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
    for notebook in NOTEBOOKS:
        found = course_page(notebook.stem, notebook.read_text("utf-8"))
        files.append(File.generated(config, f"course/{notebook.stem}.md", content=found.markdown))
        for name, picture in found.pictures.items():
            files.append(File.generated(config, f"course/{name}", content=picture))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files into links between pages, and add the keys of recipes."""
    if page.file.src_uri == "configuration.md":
        markdown += f"\n## Every key\n\n```text\n{keys_of_recipes()}```\n"
    return relinked(markdown, page.file.src_uri)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> None:
    """Raise `PluginError` if a browser would load a part of the page from another server."""
    if found := parts_elsewhere(output):
        raise PluginError(
            f"{page.file.src_uri}: {found[0]} loads from another server; add the file"
        )
