"""Forms of the pages, built from contracts, plans and call arguments, and parsing of their input."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import unquote

import lxml.html
from pydantic import JsonValue, ValidationError
from pydantic_core import from_json, to_json
from starlette.datastructures import FormData

from chargehand.contracts import CallDecision, Plan, PlanDecision, Subtask, TypedByPeople
from chargehand.messages import Row
from chargehand_cli.rendering.escaping import exact_text, json_text, one_safe_line, safe_text
from chargehand_plugins.console.operations import parse
from chargehand_plugins.console.problems import Problem, invalid
from chargehand_plugins.console.words import words

_LONG: Final = 200
"""In characters; longer texts get a larger field."""
_LONG_ARGUMENT: Final = 160
"""Characters; longer values are folded and get a larger field."""
_ARGUMENT: Final = "arguments."
_EMPTY_ROWS: Final = 3
_ROW: Final = "rows."
_SAYS_WHICH: Final = ("decision", "call", "subtask")
"""Hidden fields that distinguish the forms of one action."""
_NOT_KEPT: Final = ("csrf", "token")
_lxml: Final = cast("Any", lxml.html)
"""It has no types."""
_NOT_IN_HTML: Final = re.compile("[^\\t\\n\\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that a browser's form does not send."""


@dataclass(frozen=True)
class FormField:
    name: str
    description: str
    is_required: bool
    is_json: bool
    """Whether it is entered as JSON: a number, a list or an object."""
    choices: tuple[str, ...]
    most_characters: int | None

    @property
    def is_long(self) -> bool:
        """Whether it gets a multi-line field."""
        return self.is_json or (self.most_characters or 0) > _LONG


def text_of(form: FormData, name: str) -> str:
    """Return a text field, with CR LF from browsers converted; empty if it is missing or a file."""
    value = form.get(name)
    return value.replace("\r\n", "\n") if isinstance(value, str) else ""


def read_content(message: Row, form: FormData) -> TypedByPeople | None:
    """Parse a form as the content of an update; empty fields are absent.

    A field `edits.subtask` is the field `subtask` of the only item of the list `edits`.

    Raises:
        Problem: it is invalid.
    """
    if message.takes is None:
        return None
    as_json = {field.name for field in form_fields(message.takes) if field.is_json}
    written: dict[str, bytes] = {}
    read: set[str] = set()
    if message.takes is PlanDecision and _has_any(form, _ROW):
        written, read = {"plan": to_json(_read_plan(form))}, {"plan", "final_instruction", "rows"}
    if message.takes is CallDecision and _has_any(form, _ARGUMENT):
        written, read = {"arguments": to_json(_read_arguments(form))}, {"arguments"}
    items: dict[str, dict[str, str]] = {}
    for name in form:
        text = text_of(form, name)
        field, _, inner = name.partition(".")
        if not text or name == "csrf" or field in read:
            continue
        if inner:
            items.setdefault(field, {})[inner] = text
        else:
            written[field] = text.encode() if field in as_json and _is_json(text) else to_json(text)
    written |= {field: to_json([item]) for field, item in items.items()}
    content = b", ".join(to_json(name) + b": " + value for name, value in written.items())
    return parse(message.takes, b"{" + content + b"}", "form")


def refill(html: str, action: str, form: FormData) -> str:
    """Fill a refused form with what was typed into it, and unfold everything that contains it."""
    page = _lxml.document_fromstring(html)
    for each in page.forms:
        hidden = {field.name: field.value for field in each.inputs if field.get("type") == "hidden"}
        if unquote(each.action or "") == action and all(
            text_of(form, name) == hidden[name] for name in _SAYS_WHICH if name in hidden
        ):
            for field in each.inputs:
                _enter(field, form)
    return str(_lxml.tostring(page, doctype="<!doctype html>", encoding="unicode"))


def kept_fields(form: FormData) -> list[tuple[str, str, bool]]:
    """List the fields of a refused form: name, text, and whether a person may want to read the text."""
    named = ((name, text_of(form, name)) for name in form if name not in _NOT_KEPT and isinstance(form[name], str))
    return [(name, text, " " in text or len(text) > _LONG) for name, text in named]


def _enter(field: Any, form: FormData) -> None:
    typed = _NOT_IN_HTML.sub("", text_of(form, field.name or ""))
    match field.tag, field.get("type"):
        case _, "hidden" | "password" | "file":
            return
        case _, "checkbox":
            before, field.checked = field.checked, field.name in form
            is_changed = before != field.checked
        case "textarea", _:
            # A browser ignores the first line break.
            is_changed = field.value.removeprefix("\n") != typed
            field.value = f"\n{typed}"
        case tag, _:
            is_changed = (field.value or "") != typed and (tag != "select" or typed in field.value_options)
            field.value = typed if is_changed else field.value
    for outer in field.iterancestors("details") if is_changed else ():
        outer.set("open", "")


def read_number(text: str) -> object:
    """Parse a number as JSON; any other text is kept for the contract to refuse."""
    return from_json(text) if _is_json(text) else text


def form_fields(contract: type[TypedByPeople]) -> Iterator[FormField]:
    """Build the fields of a form from its contract."""
    schema = contract.model_json_schema()
    for name, described in schema["properties"].items():
        kinds: list[dict[str, Any]] = described.get("anyOf", [described])
        yield FormField(
            name,
            described.get("description", ""),
            name in schema.get("required", ()),
            is_json=not any(each.get("type") == "string" for each in kinds),
            choices=tuple(choice for each in kinds for choice in each.get("enum", ())),
            most_characters=next((each["maxLength"] for each in kinds if "maxLength" in each), None),
        )


def plan_rows(plan: Plan) -> list[Subtask | dict[str, str]]:
    """List the subtasks of a plan, followed by empty rows."""
    return [*plan.subtasks, *[dict.fromkeys(Subtask.model_fields, "")] * _EMPTY_ROWS]


def _has_any(form: FormData, prefix: str) -> bool:
    return any(name.startswith(prefix) for name in form)


def _read_plan(form: FormData) -> dict[str, Any]:
    """Parse an edited plan into its contract's JSON; properties without a field are unchanged.

    Row `rows.2` was built from the subtask `rows.2.was`; its position is `rows.2.place`.
    """
    try:
        plan = Plan.model_validate_json(str(form.get("plan", "")))
    except ValidationError:  # not as written by this page
        plan = Plan(subtasks=())
    before = {each.id: each.model_dump(mode="json") for each in plan.subtasks}
    return plan.model_dump(mode="json") | {
        "subtasks": [_subtask(row, before.get(row.get("was", ""), {})) for row in _in_order(form)],
        "final_instruction": str(form.get("final_instruction", plan.final_instruction)),
    }


def _in_order(form: FormData) -> Iterator[Mapping[str, str]]:
    """Yield the rows that are neither empty nor dropped, by position."""
    rows: dict[str, dict[str, str]] = {}
    for name, value in form.items():
        if name.startswith(_ROW) and isinstance(value, str):
            number, _, field = name.removeprefix(_ROW).partition(".")
            rows.setdefault(number, {})[field] = value.replace("\r\n", "\n").strip()
    remaining = [row for row in rows.values() if "drop" not in row and (row.get("id") or row.get("instruction"))]
    yield from sorted(remaining, key=lambda row: _place(row.get("place", "")))


def _place(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")


def _subtask(row: Mapping[str, str], before: Mapping[str, Any]) -> dict[str, Any]:
    after = row.get("depends_on", "").replace(",", " ").split()
    required = [each for each in before.get("required") or () if each in after]
    typed = {"id": row.get("id", ""), "agent": row.get("agent", ""), "instruction": row.get("instruction", "")}
    return {**before, **typed, "depends_on": after, "required": required}


@dataclass(frozen=True)
class Argument:
    number: int
    name: str
    value: JsonValue

    @property
    def typed(self) -> str:
        """The field's value: text with hidden characters escaped, anything else as JSON."""
        return safe_text(self.value) if isinstance(self.value, str) else self._json

    @property
    def shown(self) -> str:
        """The displayed value with every character visible; ambiguous text is quoted."""
        plain = self.value if isinstance(self.value, str) else ""
        return exact_text(plain if plain.strip() and not _is_json(plain) else self._json)

    @property
    def _json(self) -> str:
        return json_text(json.dumps(self.value, indent=2, ensure_ascii=False))

    @property
    def beginning(self) -> str:
        return one_safe_line(self.shown, _LONG_ARGUMENT)

    @property
    def is_folded(self) -> bool:
        return len(self.shown) > _LONG_ARGUMENT or "\n" in self.shown

    @property
    def is_long(self) -> bool:
        """Whether it gets a multi-line field."""
        return len(self.typed) > _LONG_ARGUMENT or "\n" in self.typed


def call_arguments(arguments: Mapping[str, JsonValue]) -> Iterator[Argument]:
    """List the arguments of a call, numbered from 1."""
    for number, (name, value) in enumerate(arguments.items(), start=1):
        yield Argument(number, name, value)


def _read_arguments(form: FormData) -> dict[str, JsonValue]:
    """Parse edited arguments; an unchanged field leaves its argument exactly unchanged.

    Raises:
        Problem: a non-text argument is not JSON.
    """
    before = cast("dict[str, JsonValue]", _json("arguments", text_of(form, "arguments")))
    read: dict[str, JsonValue] = {}
    for each in call_arguments(before):
        typed = text_of(form, f"{_ARGUMENT}{each.number}")
        if typed == each.typed:
            read[each.name] = each.value
        elif isinstance(each.value, str):
            read[each.name] = typed
        elif typed.strip():
            read[each.name] = _json(each.name, typed)
    more = text_of(form, f"{_ARGUMENT}more")
    label = words("forms", "more_arguments")
    added = _json(label, more) if more.strip() else {}
    if not isinstance(added, dict):
        raise _not_json(label)
    return read | added


def _not_json(name: str) -> Problem:
    why = words("forms", "not_json")
    return invalid("form", [f"{name}: {why}"])


def _json(name: str, text: str) -> JsonValue:
    try:
        return cast("JsonValue", from_json(text, allow_inf_nan=False))
    except ValueError as error:
        raise _not_json(name) from error


def _is_json(text: str) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True
