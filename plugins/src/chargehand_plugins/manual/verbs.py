"""The verb `docs`, which shows the documentation."""

import re
from collections.abc import Container, Mapping, Sequence
from math import log
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

import typer

from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import put, put_markdown

app = typer.Typer()

_BUNDLED: Final = Path(__file__).with_name("pages")
_CHECKOUT: Final = Path(__file__).parents[4] / "docs"
_FOLDERS: Final = (".", "tutorial", "how-to", "reference")
_PLUGINS: Final = Path(__file__).parents[1]
_INCLUDE: Final = re.compile(r"```\{include\} (\S+)")
_LINK: Final = re.compile(r"!?\[([^][]*)\]\((?!https?:|#)([^()\s]+)\)")
"""A link to another file or picture of the checkout."""
_PAGES_SHOWN: Final = 10


@app.command()
def docs(
    words: Annotated[list[str] | None, typer.Argument(metavar="[PAGE|WORDS]", help="A page, or words to find.")] = None,
) -> None:
    """List the pages of the documentation, print one, or search them."""
    texts = pages()
    if words and len(words) == 1 and words[0] in texts:
        put_markdown(texts[words[0]])
        return
    best = search(texts, words) if words else [*texts]
    if not best:
        raise BadRequest("No page has any of these words; `chargehand docs` lists the pages.")
    put("\n".join(f"{name:26} {texts[name].partition(chr(10))[0].lstrip('# ')}" for name in best))


def pages() -> dict[str, str]:
    """Read all pages by their names in `docs`: file names, and `plugin-NAME`."""
    root = _BUNDLED if _BUNDLED.is_dir() else _CHECKOUT
    files = [file for folder in _FOLDERS for file in sorted((root / folder).glob("*.md")) if file.stem != "index"]
    plugins = {f"plugin-{file.parent.name}": file for file in sorted(_PLUGINS.glob("*/README.md"))}
    named = {file.stem: file for file in files} | plugins
    return {name: _LINK.sub(lambda link: _reference(link, named), _text(file)) for name, file in named.items()}


def _text(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    included = _INCLUDE.match(text)  # in a checkout; in the wheel, the page is already included
    return (file.parent / included[1]).read_text(encoding="utf-8") if included else text


def _reference(link: re.Match[str], named: Container[str]) -> str:
    """Describe how to reach a link's target from a terminal; files that wheels lack, by their path in a checkout."""
    text, address = link.groups()
    path = PurePosixPath(address.partition("#")[0])
    name = f"plugin-{path.parent.name}" if path.name == "README.md" else path.stem
    name = "deploying" if path.parts[-2:] == ("deploy", "README.md") else name
    if name in named:
        return f"{text} (`chargehand docs {name}`)"
    return f"{text} (`{'/'.join(part for part in path.parts if part != '..')}`)"


def search(found: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """List the pages that match words best: rare words, and those in a page's beginning or tables, count most."""
    heads = {name: " ".join([name, *text.split("\n\n")[:2]]).lower() for name, text in found.items()}
    weights = dict.fromkeys(found, 0.0)
    for word in words:
        begins = re.compile(rf"\b{re.escape(word.lower())}")
        counts = {
            name: len(begins.findall(text.lower()))
            + 10 * (len(begins.findall(heads[name])) + text.count(f"| `{word}`"))
            for name, text in found.items()
        }
        having = [name for name, count in counts.items() if count]
        for name in having:
            rarity = log(1 + len(found) / len(having))
            weights[name] += rarity * counts[name] / (counts[name] + 1 + len(found[name]) / 6000)
    return sorted((name for name in found if weights[name]), key=lambda name: -weights[name])[:_PAGES_SHOWN]
