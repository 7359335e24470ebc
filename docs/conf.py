"""How `make docs` builds the documentation site from these pages. Most of reference/ is generated from the code."""

import importlib.metadata
import json
import os
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import cast

from pydantic_core import to_jsonable_python
from pydantic_settings import BaseSettings
from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring

from chargehand_plugins.console.api import OPERATIONS, PREFIX
from chargehand_plugins.console.operations import Operation
from worker.settings import settings_type

DOCS = Path(__file__).resolve().parent
PLUGINS = DOCS.parent / "plugins" / "src" / "chargehand_plugins"

project = "Chargehand"
html_title = f"Chargehand {importlib.metadata.version('chargehand')}"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["copy.css"]
html_js_files = [("copy.js", {"defer": "defer"})]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
add_module_names = False
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": True, "exclude-members": "model_config, __init__, __new__"}
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]
"""Types of other libraries have no pages here."""


_RELATIVE_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)#\s]+)(?:#[^)\s]*)?\)")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def setup(app: Sphinx) -> None:
    """Register what is done with pages and docstrings as they are read."""
    app.connect("builder-inited", write_reference)
    app.connect("source-read", unlink_files)
    app.connect("autodoc-process-docstring", read_docstring)


def write_reference(_: Sphinx) -> None:
    """Write the pages of settings, schemas, HTTP and plug-ins; the Makefile has `typer` write that of commands."""
    pages = {"settings": _settings(settings_type()), "schemas": _schemas(), "http": _http(OPERATIONS)}
    written = {DOCS / "reference" / f"{name}.md": text for name, text in pages.items()}
    written |= {_page_of(page): _relocated(page) for page in PLUGINS.glob("*/README.md")}
    for page, text in written.items():
        page.parent.mkdir(exist_ok=True)
        # A page that has not changed is not read again.
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def unlink_files(_: Sphinx, page: str, source: list[str]) -> None:
    """Show a link to a file or folder of the repository that is no page as its text."""
    source[0] = _RELATIVE_LINK.sub(lambda found: _text_of(found, (DOCS / page).parent), source[0])


def _text_of(link: re.Match[str], folder: Path) -> str:
    target = (folder / link["target"]).resolve()
    if target.is_relative_to(PLUGINS):
        return link[0].replace(link["target"], Path(os.path.relpath(_page_of(target), folder)).as_posix())
    is_page = target.is_relative_to(DOCS) and target.suffix == ".md"
    return link["text"] if target.exists() and not is_page else link[0]


def _page_of(readme: Path) -> Path:
    """Return the page of a plug-in on the site."""
    return DOCS / "plugins" / f"{readme.parent.name}.md"


def _relocated(readme: Path) -> str:
    """Return the text of a plug-in's page, whose links begin at its place on the site."""
    place = _page_of(readme).parent

    def relocate(link: re.Match[str]) -> str:
        target = (readme.parent / link["target"]).resolve()
        return link[0].replace(link["target"], Path(os.path.relpath(target, place)).as_posix())

    return _RELATIVE_LINK.sub(relocate, readme.read_text(encoding="utf-8"))


def read_docstring(_: Sphinx, kind: str, __: str, ___: object, ____: object, lines: list[str]) -> None:
    """Read what stands between backticks as code, as Markdown does, and the sections of functions."""
    lines[:] = [_CODE.sub(r"``\1``\\ ", line) for line in lines]
    if kind in {"function", "method"}:
        lines[:] = GoogleDocstring(lines, what="function").lines()


def _settings(settings: type[BaseSettings]) -> str:
    """Describe the variables of workers, those of each backend together."""
    parts = [
        part
        for part in settings.__mro__
        if issubclass(part, BaseSettings) and part.__annotations__ and part is not BaseSettings
    ]
    lines = [
        "# Settings",
        "",
        "The environment of a worker; {doc}`../how-to/deploying` has what containers take besides.",
    ]
    for part in parts:
        title = (
            "Workers"
            if part.__name__ == "Settings"
            else (part.__doc__ or "").removeprefix("The settings of ").rstrip(".").capitalize()
        )
        lines += ["", f"## {title}", "", "| variable | default | meaning |", "|---|---|---|"]
        for name in (name for name in part.__annotations__ if name in settings.model_fields):
            field = settings.model_fields[name]
            variable = field.validation_alias or f"{settings.model_config.get('env_prefix', '')}{name}".upper()
            meaning = " ".join((field.description or "").split())
            lines.append(f"| `{variable}` | {_default(field.default)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _default(value: object) -> str:
    """Return a default as a variable would write it; a folder, below that of the checkout."""
    if value is None or value == "":
        return "none"
    if isinstance(value, Path):
        return f"`{value.relative_to(DOCS.parent)}`"
    if isinstance(value, AbstractSet):
        value = sorted(cast("AbstractSet[str]", value))
    return f"`{json.dumps(to_jsonable_python(value, exclude_none=True))}`"


def _schemas() -> str:
    lines = ["# JSON Schemas", "", "Every message of a session, for clients in other languages.", ""]
    for path in sorted((DOCS / "schemas").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8")).get("description", "").partition("\n")[0]
        lines.append(f"- {{download}}`{path.stem} <../schemas/{path.name}>`: {told}")
    return "\n".join(lines) + "\n"


def _http(operations: Iterable[Operation]) -> str:
    lines = [
        "# HTTP API",
        "",
        f"Every operation, below `{PREFIX}`; {{doc}}`../how-to/http-api` shows how they are used.",
        f"The same as OpenAPI 3.1 is served at `{PREFIX}/openapi.json`.",
        "Bodies and answers are those of the {doc}`JSON Schemas <schemas>`.",
    ]
    for each in operations:
        lines += ["", f"## {each.method} {each.path}", "", f"{each.summary.rstrip('.')}.", ""]
        of_query: Mapping[str, Mapping[str, object]] = (
            each.query.model_json_schema()["properties"] if each.query else {}
        )
        for place, schemas in (("query", of_query), ("header", each.headers)):
            for name, schema in schemas.items():
                lines.append(f"- {place} `{name}`: {' '.join(str(schema.get('description') or '').split())}")
        lines += [f"- body: `{each.takes.__name__}`"] if each.takes else []
        answer = f"`{each.returns.__name__}`" if each.returns else each.media_type
        lines += [f"- {int(each.status)} {each.status.phrase}: {answer}"]
        lines += [f"- {int(status)} {status.phrase}: {text}" for status, text in each.also.items()]
    return "\n".join(lines) + "\n"
