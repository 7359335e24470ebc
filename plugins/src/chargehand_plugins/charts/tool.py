"""The tool `draw_chart`: charts of the session's tables."""

import asyncio
import base64
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final, NamedTuple

from pydantic import JsonValue

from activities.backends import Choice
from activities.contracts.tool import READS_DOCUMENTS, ToolAnswer, ToolContext, ToolSpec, object_schema
from activities.documents.artifacts import Artifacts
from activities.documents.library import DocumentLibrary
from activities.tools.data.query import select_rows
from activities.tools.outputs import ToolOutput, store_outputs
from chargehand.tools import failed
from worker.parts import WorkerParts

MOST_POINTS: Final = {"bar": 60, "line": 5_000, "scatter": 5_000, "pie": 12}
"""Maximum rows by kind of chart."""
_FORMS: Final = ("png", "svg")
_MOST_SERIES: Final = 8
_LONGEST_TITLE: Final = 150
_LONGEST_NAME: Final = 200


class _Chart(NamedTuple):
    kind: str
    x: str
    y: list[str]
    title: str
    form: str


async def add_parts(parts: WorkerParts) -> None:
    if find_spec("matplotlib"):
        parts.add_tool(DrawChart(parts.library, parts.artifacts))


def choose(_: object) -> Sequence[Choice]:
    if find_spec("matplotlib"):
        return (Choice("charts", "matplotlib", "it is installed"),)
    return (Choice("charts", "off", "not installed: pip install 'chargehand[charts]'"),)


class DrawChart:
    capabilities = READS_DOCUMENTS
    spec = ToolSpec(
        name="draw_chart",
        own_step=True,
        needs_documents=True,
        description=(
            "Draw a chart of the user's tables, kept for the user with the report: one SELECT (DuckDB) whose rows are "
            "drawn in their order. You see the rows, not the picture. Sort and aggregate in SQL; a bar chart shows "
            f"{MOST_POINTS['bar']} rows at most, a pie {MOST_POINTS['pie']}."
        ),
        parameters=object_schema(
            kind={"type": "string", "enum": list(MOST_POINTS)},
            sql={"type": "string", "description": "Gives the columns x and y."},
            x={"type": "string", "description": "The column along the axis, or the names of the pie's parts."},
            y={
                "type": "array",
                "items": {"type": "string"},
                "description": f"Columns of numbers to draw, {_MOST_SERIES} at most; for a pie, one.",
            },
            title={"type": "string", "description": "What the chart shows, with the unit."},
            form={"type": "string", "enum": list(_FORMS), "description": "png unless svg is wanted."},
        ),
    )

    def __init__(self, library: DocumentLibrary, store: Artifacts, timeout_seconds: float = 20.0) -> None:
        self._library = library
        self._store = store
        self._timeout_seconds = timeout_seconds

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        chart = _chart(arguments)
        if isinstance(chart, str):
            return failed(chart)
        library = await self._library.open(context.documents)
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="chargehand-chart-")
        try:
            selected = await select_rows(
                f"{__package__}.process",
                library,
                arguments.get("sql"),
                self._timeout_seconds,
                folder=folder,
                most_points=MOST_POINTS[chart.kind],
                **chart._asdict(),
            )
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))
        if isinstance(selected, str):
            return failed(selected)
        output, source, answer = selected
        named = re.sub(r"[^\w]+", "-", (chart.title or chart.kind).lower()).strip("-")[:60] or "chart"
        file = ToolOutput(
            name=f"{named}.{chart.form}",
            content=base64.b64decode(answer["image"]),
            title=chart.title,
        )
        artifacts, left_out = await store_outputs(self._store, [file])
        if left_out:
            return failed(f"The chart could not be kept: {left_out[0]}.")
        output["kept_for_the_user"] = [artifact.name for artifact in artifacts]
        if answer["has_unknown_letters"]:
            output["letters"] = "Some letters have no form in the chart's font and are shown as boxes."
        return ToolAnswer(output=output, sources=(source,), artifacts=artifacts)


def _chart(arguments: Mapping[str, JsonValue]) -> _Chart | str:
    """Return the chart described by the arguments, or their problem."""
    kind, x, y = arguments.get("kind"), arguments.get("x"), arguments.get("y")
    title, form = arguments.get("title", ""), arguments.get("form") or "png"
    if not isinstance(kind, str) or kind not in MOST_POINTS:
        return f"`kind` must be one of {', '.join(MOST_POINTS)}."
    if not isinstance(form, str) or form not in _FORMS:
        return f"`form` must be one of {', '.join(_FORMS)}."
    names = [name for name in y if isinstance(name, str)] if isinstance(y, list) else []
    if isinstance(y, str):
        names = [y]
    if not isinstance(x, str) or not x or not names or any(len(name) > _LONGEST_NAME for name in (x, *names)):
        return "`x` must be the name of a column of the statement, and `y` a list of such names."
    if len(names) > (1 if kind == "pie" else _MOST_SERIES):
        return f"`y` must name at most {_MOST_SERIES} columns of numbers, and one for a pie."
    if not isinstance(title, str):
        return "`title` must be a text."
    return _Chart(kind, x, list(dict.fromkeys(names)), " ".join(title.split())[:_LONGEST_TITLE], form)
