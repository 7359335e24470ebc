"""The templates of the console's pages."""

import json
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, cast

from jinja2 import Environment
from markupsafe import Markup

from chargehand.state_words import SUBTASK_MARKS, state_words
from chargehand_cli.rendering.page import templates
from chargehand_cli.rendering.progress import record_words
from chargehand_cli.rendering.text import dollars, duration, size
from chargehand_plugins.console.forms import form_fields
from chargehand_plugins.console.words import catalogue


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    filters = {
        "dollars": _dollars,
        "duration": duration,
        "fields": form_fields,
        "mark": SUBTASK_MARKS.__getitem__,
        "moment": _moment,
        "pretty": _pretty,
        "record_words": record_words,
        "size": size,
        "words": state_words,
    }
    environment = templates("chargehand_plugins.console", filters)
    cast("dict[str, object]", environment.globals)["t"] = catalogue()
    return environment


def _dollars(amount: Decimal) -> str:
    return dollars(float(amount))


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _moment(moment: datetime) -> Markup:
    """Write a time in UTC; the page's script writes it in the reader's time zone."""
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(), f"{moment:%Y-%m-%d %H:%M} UTC")
