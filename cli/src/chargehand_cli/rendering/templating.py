"""The templates of pages and drawings, which escape their values and make control characters visible."""

from collections.abc import Callable, Mapping
from functools import cache
from textwrap import wrap
from typing import Any, Final, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chargehand.failure_causes import error_words
from chargehand_cli.rendering.escaping import one_safe_line, safe_text
from chargehand_cli.rendering.markdown import cited, with_commands
from chargehand_cli.rendering.progress import record_reason
from chargehand_cli.rendering.text import (
    count,
    dollars,
    duration,
    moment,
    recorded_text,
    size,
    title,
    took,
    wasted_words,
)

UNKNOWN_LANGUAGE: Final = "und"
"""BCP 47 code of an undetermined language."""


def render(template: str, **values: Any) -> Markup:
    return Markup(_environment().get_template(template).render(values))  # noqa: S704  # autoescaped


@cache
def _environment() -> Environment:
    filters: dict[str, Callable[..., object]] = {
        "count": count,
        "exact": dollars,
        "moment": moment,
        "cited": cited,
        "commands": with_commands,
        "duration": duration,
        "error_words": error_words,
        "one_line": one_safe_line,
        "reason": record_reason,
        "recorded": recorded_text,
        "size": size,
        "title": title,
        "took": took,
        "wasted": wasted_words,
        "wrapped": wrap,
    }
    return templates("chargehand_cli.rendering", filters)


def templates(package: str, filters: Mapping[str, Callable[..., object]]) -> Environment:
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    cast("dict[str, object]", environment.globals)["text"] = _text_attributes
    return environment


def _text_attributes(language: str = "") -> Markup:
    return Markup('dir="auto" lang="{}"').format(language or UNKNOWN_LANGUAGE)


def _visible(value: object) -> object:
    return safe_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value
