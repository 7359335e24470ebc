"""Untrusted tool definitions of MCP servers: bounded, digested and translated.

A server's text reaches the model in a tool's description. It is therefore truncated and cleaned, and shown only if
approved: a tool whose definition changes afterwards is withdrawn.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import JsonValue

from activities.turn_kinds.rendering import escape_marks

MOST_DEFINITION_BYTES: Final = 64_000
"""Maximum size of a tool's definition from its server."""
MOST_SPEC_BYTES: Final = 8_000
"""Maximum size of a tool's description for the model, which is in every prompt of its agent."""
_DESCRIPTION_CHARACTERS: Final = 1_500
_WORDS_CHARACTERS: Final = 300
"""Maximum length of an argument's description, and of a schema given as text."""
_DEEPEST: Final = 6
_MOST_PARTS: Final = 200
_PLAIN_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null"})
_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Argument names that every provider accepts."""


class UnusableTool(Exception):  # noqa: N818  # reads as a statement of fact
    """A tool cannot be offered to a model; the message says why."""


@dataclass(frozen=True)
class Definition:
    """A tool as shown to a model."""

    name: str
    """The server's name of the tool."""
    description: str
    parameters: dict[str, JsonValue]
    optional: frozenset[str]
    """Arguments that may be null, in which case they are omitted."""
    as_text: frozenset[str]
    """Arguments passed as JSON text, since their schema has no strict form."""
    digest: str
    """SHA-256 of the server's complete definition."""

    def arguments(self, given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Convert a model's arguments to the server's schema. Raises `ValueError` with the problem."""
        known = cast("Mapping[str, JsonValue]", self.parameters["properties"])
        if unknown := given.keys() - known.keys():
            raise ValueError(f"There is no argument `{min(unknown)[:60]}`; there are {', '.join(known) or 'none'}.")
        arguments: dict[str, JsonValue] = {}
        for name, value in ((name, given[name]) for name in known if name in given):
            if value is None and name in self.optional:
                continue
            if name in self.as_text and isinstance(value, str):
                try:
                    arguments[name] = json.loads(value)
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"`{name}` must be JSON text.") from error
            else:
                arguments[name] = value
        return arguments


def define(server: str, tool: Mapping[str, Any]) -> Definition:
    """Parse one tool of `tools/list`. Raises `UnusableTool`."""
    name = str(tool["name"])
    written = json.dumps(tool, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()
    if len(written) > MOST_DEFINITION_BYTES:
        raise UnusableTool(f"its definition is larger than {MOST_DEFINITION_BYTES:,} bytes")
    words = readable(str(tool.get("description") or tool.get("title") or name), _DESCRIPTION_CHARACTERS)
    parameters, optional, as_text = _parameters(_mapping(tool.get("inputSchema")))
    definition = Definition(
        name=name,
        description=f"A tool of the MCP server '{server}', described by that server: {words}",
        parameters=parameters,
        optional=optional,
        as_text=as_text,
        digest=hashlib.sha256(written).hexdigest(),
    )
    if len(json.dumps(parameters)) + len(json.dumps(definition.description)) > MOST_SPEC_BYTES - 500:
        raise UnusableTool(f"its description and schema are larger than {MOST_SPEC_BYTES:,} bytes")
    return definition


def digest_together(definitions: Iterable[Definition]) -> str:
    """Return the digest of several tools, for the crew file."""
    lines = sorted(f"{definition.name} {definition.digest}" for definition in definitions)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def readable(text: str, most: int) -> str:
    """Truncate untrusted text, removing invisible characters and imitations of our marks."""
    seen = "".join(
        character
        for character in text[: 4 * most]
        if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn"}
    )
    return escape_marks(seen if len(seen) <= most else f"{seen[: most - 1]}…")


def _parameters(schema: Mapping[str, Any]) -> tuple[dict[str, JsonValue], frozenset[str], frozenset[str]]:
    """Translate a schema into one with all properties required and optional ones nullable."""
    needed = {str(name) for name in _list(schema.get("required"))}
    translated: dict[str, JsonValue] = {}
    as_text: set[str] = set()
    translation = _Translation(_mapping(schema.get("$defs")))
    for name, inner in _mapping(schema.get("properties")).items():
        if _ARGUMENT_NAME.fullmatch(name) is None:
            if name in needed:
                raise UnusableTool("it requires an argument whose name no provider accepts")
            continue
        value: JsonValue
        try:
            value = translation.translate(inner, _DEEPEST)
        except _NoStrictForm:
            value = _text_argument(inner)
            as_text.add(name)
        translated[name] = value if name in needed else {"anyOf": [value, {"type": "null"}]}
    return _closed_object(translated), frozenset(translated).difference(needed), frozenset(as_text)


def _text_argument(schema: object) -> dict[str, JsonValue]:
    form = readable(json.dumps(schema), _WORDS_CHARACTERS)
    words = _words(_mapping(schema))
    return {"type": "string", "description": f"{words} As JSON text, of this JSON Schema: {form}".strip()}


def _closed_object(properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _words(schema: Mapping[str, Any]) -> str:
    return readable(str(schema.get("description") or ""), _WORDS_CHARACTERS)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


class _NoStrictForm(Exception):  # noqa: N818  # reads as a statement of fact
    """A schema has no strict form, with required properties and closed objects."""


class _Translation:
    """Translates the arguments of one tool within bounds, since references can multiply a small schema."""

    def __init__(self, definitions: Mapping[str, object]) -> None:
        self._definitions = definitions
        self._left = _MOST_PARTS

    def translate(self, schema: object, deepest: int) -> dict[str, JsonValue]:
        """Translate a schema up to a nesting depth. Raises `_NoStrictForm`."""
        self._left -= 1
        keywords = _mapping(schema)
        if self._left < 0 or deepest < 0 or not keywords:
            raise _NoStrictForm
        if "$ref" in keywords:
            return self.translate(self._definitions.get(str(keywords["$ref"]).rpartition("/")[2]), deepest - 1)
        written: dict[str, JsonValue] = {"description": words} if (words := _words(keywords)) else {}
        kinds = _list(keywords.get("type"))
        if options := _list(keywords.get("anyOf") or keywords.get("oneOf")) or kinds:
            # One type at a time, each with the whole schema.
            inner = ({**keywords, "type": kind} for kind in kinds) if options is kinds else options
            return {**written, "anyOf": [self.translate(option, deepest - 1) for option in inner]}
        match keywords.get("type"):
            case str() as kind if kind in _PLAIN_TYPES:
                return {**written, "type": kind, **_choices(keywords)}
            case "array":
                return {**written, "type": "array", "items": self.translate(keywords.get("items"), deepest - 1)}
            case "object":
                return {**written, **self._object(keywords, deepest)}
            case _:
                raise _NoStrictForm

    def _object(self, schema: Mapping[str, Any], deepest: int) -> dict[str, JsonValue]:
        properties = _mapping(schema.get("properties"))
        # An omitted inner property could not be distinguished from a null one.
        if not properties or set(properties) != {str(name) for name in _list(schema.get("required"))}:
            raise _NoStrictForm
        if not all(map(_ARGUMENT_NAME.fullmatch, properties)):
            raise _NoStrictForm
        return _closed_object({name: self.translate(each, deepest - 1) for name, each in properties.items()})


def _choices(schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    values = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
    if not all(isinstance(each, str | int | float) and readable(str(each), 100) == str(each) for each in values):
        raise _NoStrictForm
    return {"enum": cast("list[JsonValue]", values)} if values else {}
