"""The templates of the console's pages."""

from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, cast

from jinja2 import Environment
from markupsafe import Markup

from chargehand.state_words import state_words
from chargehand_cli.rendering.templating import templates
from chargehand_cli.rendering.text import dollars, duration, size
from chargehand_plugins.console.words import catalogue


def render(template: str, **values: Any) -> str:
    """Render a template."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    filters = {"dollars": _dollars, "duration": duration, "size": size, "words": state_words, "moment": _moment}
    environment = templates("chargehand_plugins.console", filters)
    cast("dict[str, object]", environment.globals)["t"] = catalogue()
    return environment


def _dollars(amount: Decimal) -> str:
    return dollars(float(amount))


def _moment(moment: datetime) -> Markup:
    """Write a time in UTC; the page's script writes it in the reader's time zone."""
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(), f"{moment:%Y-%m-%d %H:%M} UTC")
