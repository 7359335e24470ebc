"""The templates of the pages: every value is escaped, and made visible where it could mislead."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chargehand_cli.rendering.escaping import safe_text
from chargehand_cli.rendering.text import dollars, duration, size

_STATES: Final = {"canceled": "cancelled", "timed_out": "timed out"}


def render(template: str, **values: Any) -> str:
    """Render a template."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("chargehand_cli.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., object]] = {
        "dollars": _dollars,
        "duration": duration,
        "size": size,
        "words": _words,
        "moment": _moment,
    }
    environment.filters.update(filters)
    return environment


def _visible(value: object) -> object:
    return safe_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _dollars(amount: Decimal) -> str:
    return dollars(float(amount))


def _words(state: str) -> str:
    return _STATES.get(state, state.replace("_", " "))


def _moment(moment: datetime) -> Markup:
    """Write a time in UTC; the page's script writes it in the reader's time zone."""
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(), f"{moment:%Y-%m-%d %H:%M} UTC")
