"""The templates of the console's pages."""

import json
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, cast
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from chargehand.contracts import Limits
from chargehand.state_words import SUBTASK_MARKS, standing
from chargehand_cli.rendering.escaping import exact_text, one_safe_line
from chargehand_cli.rendering.progress import record_reason, record_state, record_words, step_words
from chargehand_cli.rendering.templating import templates
from chargehand_cli.rendering.text import count, dollars, duration, recorded_text, size, text_end
from chargehand_plugins.console.activity import step_facts, step_tone
from chargehand_plugins.console.forms import call_arguments, form_fields, plan_rows
from chargehand_plugins.console.session_rows import row_facts
from chargehand_plugins.console.words import catalogue


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render({"done_place": "", "place": ""} | values)


@cache
def _environment() -> Environment:
    filters = {
        "count": count,
        "dollars": dollars,
        "arguments": call_arguments,
        "citing": _citing,
        "duration": duration,
        "elapsed": _elapsed_time,
        "facts": row_facts,
        "fields": form_fields,
        "json": json.dumps,
        "limit": _limit,
        "mark": SUBTASK_MARKS.get,
        "moment": _moment,
        "one_line": one_safe_line,
        "exact": exact_text,
        "reason": record_reason,
        "record_words": record_words,
        "recorded": recorded_text,
        "rows": plan_rows,
        "segment": partial(quote, safe=""),
        "size": size,
        "standing": standing,
        "state": record_state,
        "step_facts": step_facts,
        "step_words": step_words,
        "text_end": text_end,
        "tone": step_tone,
    }
    environment = templates("chargehand_plugins.console", filters)
    cast("dict[str, object]", environment.globals)["t"] = catalogue()
    return environment


def _limit(name: str) -> str:
    """Describe a limit and its ceiling."""
    described: str = Limits.model_json_schema()["properties"][name]["description"]
    return " ".join(described.replace("`", "").split())


def _citing(answer: Markup, base: str) -> Markup:
    """Link the citations of an answer to the sources of its report."""
    return Markup(answer.replace('href="#', f'href="{base}/report#'))  # noqa: S704  # safe before, and so is the address


def _elapsed_time(since: datetime) -> Markup:
    """Render an elapsed time, which the page's script updates."""
    so_far = duration(max(datetime.now(UTC) - since, timedelta()))
    return Markup('<time class="since" datetime="{}">{}</time>').format(since.isoformat(), so_far)


def _moment(moment: datetime) -> Markup:
    """Render a time in UTC; the page's script converts it to the reader's time zone."""
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(), f"{moment:%Y-%m-%d %H:%M} UTC")
