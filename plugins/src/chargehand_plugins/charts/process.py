"""Draws the rows of one SELECT, in a single-use child process.

Started by the tool. The statement is locked down like any other; matplotlib is loaded after it, which saves this time
for a failing statement.
"""

# pyright: reportUnknownMemberType=false
# matplotlib leaves the types of its keyword arguments open.

import base64
import datetime
import decimal
import io
import os
import textwrap
import warnings
from typing import TYPE_CHECKING, Any, Final

from activities.processes import limits
from activities.tools.data.query_process import RefusedError, json_value, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MEMORY_BYTES: Final = 1536 << 20
_FILE_BYTES: Final = 1 << 20
"""Maximum file size, which leaves room for matplotlib's font cache."""
_LONGEST_LABEL: Final = 28
# Distinguishable with colour vision deficiency (Okabe and Ito).
_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#444444")

Number = float
Position = str | float | datetime.date


def draw(question: dict[str, Any]) -> dict[str, Any]:
    """Return the chart and its rows, or the error."""
    try:
        selected = select(question["database"], question["sql"], question["most_points"] + 1)
        positions, series = _series(question, selected)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            image = _draw(question, positions, series)
    except RefusedError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "Out of Memory Error: the chart needs more memory than it may use"}
    return {
        "columns": selected["columns"],
        "rows": [[json_value(cell) for cell in row] for row in selected["rows"][: question["most_rows"]]],
        "row_count": selected["row_count"],
        "is_exact": selected["is_exact"],
        "image": base64.b64encode(image).decode(),
        "has_unknown_letters": any("missing from" in str(warning.message) for warning in warned),
    }


def _series(question: dict[str, Any], selected: dict[str, Any]) -> tuple[list[Position], dict[str, list[Number]]]:
    kind, x, names, most = (question[name] for name in ("kind", "x", "y", "most_points"))
    columns: list[str] = selected["columns"]
    rows: list[tuple[object, ...]] = selected["rows"]
    for name in (x, *names):
        if columns.count(name) != 1:
            raise RefusedError(f"The statement must give one column '{name}'; it gives {', '.join(columns)}.")
    if not rows:
        hint = f" Did you mean {' or '.join(selected['hints'])}?" if selected["hints"] else ""
        raise RefusedError(f"The statement gives no rows, so there is nothing to draw.{hint}")
    if len(rows) > most:
        raise RefusedError(
            f"A {kind} chart shows {most:,} rows at most, and there are {selected['row_count']:,}: "
            "aggregate, or sort and LIMIT."
        )
    series = {name: [_number(row[columns.index(name)], name) for row in rows] for name in names}
    if kind == "pie" and any(not number >= 0 for numbers in series.values() for number in numbers):
        raise RefusedError("A pie chart shows parts of a whole: no negative and no missing numbers.")
    if kind == "pie" and not any(series[names[0]]):
        raise RefusedError("All numbers are 0, so there is nothing to draw.")
    return _positions([row[columns.index(x)] for row in rows], kind), series


def _number(cell: object, name: str) -> Number:
    if cell is None:
        return float("nan")
    if isinstance(cell, bool) or not isinstance(cell, int | float | decimal.Decimal):
        raise RefusedError(f"'{name}' must be a column of numbers; it has {str(cell)[:40]!r}.")
    return float(cell)


def _positions(cells: list[object], kind: str) -> list[Position]:
    """Place dates and numbers to scale, and everything else at equal distances, as in bars and pies."""
    if kind in {"line", "scatter"}:
        dates = [cell for cell in cells if isinstance(cell, datetime.date)]
        if len(dates) == len(cells):
            return list(dates)
        numbers = [cell for cell in cells if isinstance(cell, int | float | decimal.Decimal)]
        if len(numbers) == len(cells):
            return [float(number) for number in numbers]
    return ["" if cell is None else _label(str(json_value(cell))) for cell in cells]


def _draw(question: dict[str, Any], positions: list[Position], series: dict[str, list[Number]]) -> bytes:
    # The font cache is deleted with this process; this machine's fonts do not matter.
    os.environ.update(MPLCONFIGDIR=question["folder"], MPL_IGNORE_SYSTEM_FONTS="1", OPENBLAS_NUM_THREADS="1")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Two dollar signs are amounts, not a formula. The same chart always has the same bytes.
    mpl.rcParams.update({"text.parse_math": False, "svg.hashsalt": "chargehand"})
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    if question["title"]:
        axes.set_title(textwrap.fill(question["title"], 75))
    if question["kind"] == "pie":
        labels = [str(position) for position in positions]
        axes.pie(next(iter(series.values())), labels=labels, autopct="%1.0f%%", colors=_COLOURS)
    else:
        _draw_axes(axes, question, positions, series)
    image = io.BytesIO()
    form = question["form"]
    figure.savefig(image, format=form, metadata={"Date": None} if form == "svg" else None)
    return image.getvalue()


def _draw_axes(
    axes: "Axes", question: dict[str, Any], positions: list[Position], series: dict[str, list[Number]]
) -> None:

    kind = question["kind"]
    # Repeated names are separate positions.
    named = [position for position in positions if isinstance(position, str)]
    places: list[Any] = list(range(len(positions))) if named else list(positions)
    for number, (name, values) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        match kind:
            case "bar":
                width = 0.8 / len(series)
                offset = (number - (len(series) - 1) / 2) * width
                axes.bar([place + offset for place in places], values, width=width, label=name, color=colour)
            case "line":
                marker = "o" if len(values) <= 40 else None
                axes.plot(places, values, marker=marker, markersize=4, label=name, color=colour)
            case _:
                axes.scatter(places, values, s=14, label=name, color=colour)
    if named:
        step = max(1, len(places) // 30)
        crowded = len(named) > 6 or max(map(len, named)) > 10
        axes.set_xticks(
            places[::step], named[::step], rotation=40 if crowded else 0, ha="right" if crowded else "center"
        )
    elif isinstance(positions[0], datetime.date):
        _date_axis(axes, [position for position in positions if isinstance(position, datetime.date)])
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.set_xlabel(_label(question["x"]))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    if len(series) > 1:
        axes.legend(frameon=False)
    else:
        axes.set_ylabel(_label(next(iter(series))))


def _date_axis(axes: "Axes", dates: list[datetime.date]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, DayLocator

    has_hours = any(isinstance(date, datetime.datetime) for date in dates)
    # No hours between days if the data have none.
    few = not has_hours and (max(dates) - min(dates)).days <= 10
    locator = DayLocator() if few else AutoDateLocator(minticks=3, maxticks=8)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _label(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"


if __name__ == "__main__":
    limits.confine(_MEMORY_BYTES, _FILE_BYTES)
    limits.serve(draw)
