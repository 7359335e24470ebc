"""A question as one query over one table, and its SQL."""

# ruff: noqa: S608 - names are the catalog's, made of letters, digits and `_`; values are quoted

from typing import Final, NamedTuple

from chargehand_plugins.extractive.fields import Field, Fields
from chargehand_plugins.extractive.lexicon import data
from chargehand_plugins.extractive.parts import Condition

_ORDERS: Final = {"most": "2 DESC NULLS FIRST, 1", "least": "2 ASC NULLS FIRST, 1"}


class Group(NamedTuple):
    """The grouping of rows: a column, or its days, months or years."""

    field: Field
    sql: str
    is_period: bool = False
    label: str = ""
    word: str = ""
    """The stem of its name."""


class Query(NamedTuple):
    """A question in the form of a query."""

    fields: Fields
    shape: str
    """`one` value, a `list` of names, a value `per` group, or the group with the `most` or the `least`."""
    function: str
    """The aggregate of the rows: `count`, `distinct`, `share`, `rate` or a function of SQL; `any_value` leaves the
    result in doubt if the rows have several values."""
    measure: Field | None
    group: Group | None
    conditions: tuple[Condition, ...]
    other: str
    """The function by which another group may lead; empty for none."""
    doubts: tuple[str, ...]
    """SQL that marks a row of the result as unsure."""
    period_text: str

    @property
    def place(self) -> str:
        return " · ".join(filter(None, (self.fields.table.document, self.fields.table.sheet)))

    @property
    def currency(self) -> Field | None:
        """The column of currencies by which amounts are separated."""
        is_bare = self.measure is not None and self.measure.is_number and not self.measure.units
        is_own = self.measure and (self.measure.is_money or not any(each.is_money for each in self.fields.all))
        return self.fields.currency if is_bare and is_own else None

    def sql(self) -> str:
        """Select for each group its value, number of rows, and whether it is doubtful."""
        measure, counted = self._measure, ""
        where = [condition.sql for condition in self.conditions]
        if self.function == "share":
            part = [condition.sql for condition in self.conditions if condition.is_value]
            where, counted = [sql for sql in where if sql not in part], f" FILTER ({' AND '.join(part)})"
        value, total, table = self._value(self.function, counted), self._total(), f'"{self.fields.table.name}"'
        rows = " AND ".join([*(f"({each})" for each in where), *([f"NOT {total}"] if total else [])]) or "true"
        group = self._group()
        return (
            f"SELECT {group} AS name, {value} AS value, count(*){counted} AS rows, count({measure}){counted} AS filled,"
            f" {f'(SELECT count(*) FROM {table} WHERE {total})' if total else 0} AS totals,"
            f" {' OR '.join(self._all_doubts(value, group, rows, total))} AS doubt,"
            f" {self._value(self.other, '') if self.other else 'NULL'} AS other FROM {table} WHERE {rows}"
            f"{'' if group == _NO_GROUP else f' GROUP BY {group}'} ORDER BY {self._order()}"
        )

    @property
    def _measure(self) -> str:
        calendar = self.measure and self.measure.calendar
        return calendar.text if calendar else f'"{self.measure.name}"' if self.measure else "*"

    def _value(self, function: str, counted: str) -> str:
        amount = f"sum({self._measure})" if self.measure else "count(*)"
        written = {
            "share": f"100.0 * {amount}{counted} / {amount}",
            "count": "count(*)",
            "distinct": f"count(DISTINCT {self._measure})",
            "rate": f"sum({self._measure}) / count(DISTINCT {self.group.sql if self.group else self._measure})",
        }
        return written.get(function, f"{function}({self._measure})")

    def _group(self) -> str:
        if self.group and self.function != "rate":
            return self.group.sql
        return f'CAST("{self.currency.name}" AS VARCHAR)' if self.currency and self.function != "share" else _NO_GROUP

    def _order(self) -> str:
        """Order by value, or by name; months by the calendar."""
        calendar = self.group.field.calendar if self.group and self.function != "rate" else None
        return _ORDERS.get(self.shape) or (f"min({calendar.text}), 1" if calendar else "1")

    def _all_doubts(self, value: str, group: str, rows: str, total: str) -> list[str]:
        table = f'"{self.fields.table.name}"'
        checks = [f"{value} IS NULL", *([] if group == _NO_GROUP else [f"{group} IS NULL"])]
        checks += [f"min({self._measure}) IS DISTINCT FROM max({self._measure})"] * (self.function == "any_value")
        checks += self.doubts
        if self.currency and (self.group or self.function == "share"):
            checks.append(f'(SELECT count(DISTINCT "{self.currency.name}") FROM {table} WHERE {rows}) > 1')
        if self.shape == "least" and self.group and self.conditions and self.function in {"count", "sum"}:
            # A group without matching rows would have the least of all, and is not among the results.
            everything = f"SELECT count(DISTINCT {group}) FROM {table} WHERE NOT {total or 'false'}"
            checks.append(f"(SELECT count(DISTINCT {group}) FROM {table} WHERE {rows}) < ({everything})")
        return checks

    def _total(self) -> str:
        """Return a condition for total rows; empty if the table has none."""
        texts = [column for column in self.fields.table.columns if column.type == "VARCHAR"]
        values = {example.lower() for column in texts for example in column.examples}
        is_known = all(column.distinct <= len(column.examples) for column in texts)
        names = [name for name in data()["totals"] if name in values or not is_known]
        listed = ", ".join(f'lower("{column.name}")' for column in texts)
        return f"coalesce(list_has_any([{listed}], {names}), false)" if names and texts else ""


_NO_GROUP: Final = "''"
