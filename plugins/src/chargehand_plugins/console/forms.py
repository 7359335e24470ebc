"""The forms of the session page: a form for each update, made from its contract, and what people type into it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json, to_json
from starlette.datastructures import FormData

from chargehand.contracts import CallDecision, PlanDecision, TypedByPeople
from chargehand.messages import Row
from chargehand_plugins.console.call_form import has_arguments, is_json, read_arguments
from chargehand_plugins.console.operations import parse
from chargehand_plugins.console.plan_form import has_rows, read_plan

_OF_A_PLAN: Final = frozenset({"plan", "final_instruction"})
_LONG: Final = 200
"""Characters; longer texts are typed into a larger field."""


@dataclass(frozen=True)
class FormField:
    name: str
    description: str
    is_required: bool
    is_json: bool
    """Whether it is typed as JSON: a number, a list or an object."""
    choices: tuple[str, ...]
    most_characters: int | None

    @property
    def is_long(self) -> bool:
        """Whether more than a line is typed."""
        return self.is_json or (self.most_characters or 0) > _LONG


def text_of(form: FormData, name: str) -> str:
    """Return a text field; empty if it is missing or a file. Browsers send line ends as CR LF."""
    value = form.get(name)
    return value.replace("\r\n", "\n") if isinstance(value, str) else ""


def read_content(message: Row, form: FormData) -> TypedByPeople | None:
    """Read what was typed as the content of an update; empty fields are absent.

    A field `edits.subtask` is the field `subtask` of the only item of the list `edits`.

    Raises:
        Problem: it is invalid.
    """
    if message.takes is None:
        return None
    as_json = {field.name for field in form_fields(message.takes) if field.is_json}
    rows = message.takes is PlanDecision and has_rows(form)
    written: dict[str, bytes] = {"plan": to_json(read_plan(form))} if rows else {}
    if message.takes is CallDecision and has_arguments(form):
        written["arguments"] = to_json(read_arguments(form))
    read = set(written)
    items: dict[str, dict[str, str]] = {}
    for name in form:
        text = text_of(form, name)
        field, _, inner = name.partition(".")
        if not text or name == "csrf" or field in read or (rows and (name in _OF_A_PLAN or field == "rows")):
            continue
        if inner:
            items.setdefault(field, {})[inner] = text
        else:
            written[field] = text.encode() if field in as_json and is_json(text) else to_json(text)
    written |= {field: to_json([item]) for field, item in items.items()}
    content = b", ".join(to_json(name) + b": " + value for name, value in written.items())
    return parse(message.takes, b"{" + content + b"}", "form")


def read_number(text: str) -> object:
    """Read a number as JSON; any other text stays as it is, for the contract to refuse."""
    return from_json(text) if is_json(text) else text


def form_fields(contract: type[TypedByPeople]) -> Iterator[FormField]:
    """Make the fields of a form from the contract that it is read as."""
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
