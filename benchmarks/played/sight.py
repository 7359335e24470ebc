"""What a model sees in a request, parsed leniently: headings and layout may change, addresses and words are found."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from tests.scripted_provider import ScriptedReply, ScriptedRequest, ToolUse, saying

_CALL: Final = re.compile(r"^(\w+)\((\{.*\})\)$", re.MULTILINE)
Schema = dict[str, Any]

_TOOL: Final = re.compile(r"^From (\w+):$", re.MULTILINE)
_SOURCE: Final = re.compile(r"^\[([^\]\n]{2,300})\][ \t]*(.*)$", re.MULTILINE)
_INTRODUCED: Final = re.compile(r"^\[(p\d+)\] (\S+)", re.MULTILINE)
_MORE: Final = re.compile(r'"(?:next(?:_from)?|matches)": ?[1-9]')
_URL: Final = re.compile(r"https?://[^\s\"'\]<>)\\]+")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n{1,}")
_WORD: Final = re.compile(r"[^\W_]+")
_CHINESE: Final = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True)
class Passage:
    """Text that a tool has returned, under the name it was printed with."""

    tool: str
    """The tool that returned it, if named."""
    ref: str
    text: str
    whole: str
    """The ref in full, as it was introduced."""

    @property
    def address(self) -> str:
        """The whole ref without a place in the document."""
        return self.whole.partition("#")[0]


@dataclass(frozen=True)
class Evidence:
    """A sentence that answers what was wanted."""

    wanted: str
    sentence: str
    ref: str


class Sight:
    """One request, as the model sees it."""

    def __init__(self, request: ScriptedRequest) -> None:
        self.request = request

    @cached_property
    def task(self) -> str:
        """All text from the user's side."""
        return "\n\n".join(message.text for message in self.request.messages if message.role == "user")

    @cached_property
    def shown(self) -> list[Passage]:
        """Every passage that tools have returned, in order."""
        return [
            passage
            for message in self.request.messages
            if message.role == "tools"
            for passage in passages(message.text, self.introduced)
        ]

    @cached_property
    def introduced(self) -> dict[str, str]:
        """Full refs by the short refs that they were first printed with."""
        told = "\n".join(message.text for message in self.request.messages if message.role in {"user", "tools"})
        return dict(reversed(_INTRODUCED.findall(told)))

    @cached_property
    def results(self) -> str:
        """All text that tools have returned."""
        return "\n".join(message.text for message in self.request.messages if message.role == "tools")

    @cached_property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The tools that this conversation has used, with their arguments."""
        said = "\n".join(message.text for message in self.request.messages if message.role == "assistant")
        return [(name, json.loads(arguments)) for name, arguments in _CALL.findall(said)]

    def used(self, tool: str) -> list[dict[str, Any]]:
        """The arguments of every use of a tool."""
        return [arguments for name, arguments in self.calls if name == tool]

    @property
    def may_use_tools(self) -> bool:
        return bool(self.request.tools)

    def parameters(self, tool: str) -> dict[str, Any]:
        """The parameters offered for a tool; empty if the tool is not offered."""
        for offered in self.request.body.get("tools") or ():
            plain = offered.get("function", offered)
            if plain.get("name") == tool:
                schema: Schema = plain.get("input_schema") or plain.get("parameters") or {}
                return schema.get("properties", {})
        return {}

    def use(self, tool: str, **arguments: Any) -> ToolUse:
        """Use a tool, giving every required parameter and no unknown one."""
        offered = self.parameters(tool)
        return ToolUse(tool, {name: arguments.get(name, _nothing(schema)) for name, schema in offered.items()})

    @cached_property
    def links(self) -> list[tuple[str, str]]:
        """Every address from the tools, with the words between the previous address and the end of its line."""
        found: dict[str, str] = {}
        end = 0
        for match in _URL.finditer(self.results):
            before = self.results[max(end, match.start() - 200) : match.start()].rpartition("\n")[2]
            line, _, _ = self.results[match.end() : match.end() + 200].partition("\n")
            end = match.end()
            found[match[0]] = f"{found.get(match[0], '')} {before} {_URL.split(line)[0].partition('}')[0]}"
        return list(found.items())

    @cached_property
    def partly_shown(self) -> set[str]:
        """The addresses of pages that were shown only in part."""
        parts: set[str] = set()
        for tool, block in tool_blocks(self.results):
            if tool == "read_page":
                addresses = {passage.address for passage in passages(f"From {tool}:\n{block}", self.introduced)}
                parts = parts | addresses if _MORE.search(block) else parts
        return parts

    def answer(self, **known: Any) -> ScriptedReply:
        """Answer in the requested form: unknown fields are dropped, missing ones are empty."""
        return saying(json.dumps(_filled(self.schema, known), ensure_ascii=False))

    @cached_property
    def schema(self) -> Schema:
        """The JSON Schema of the answer."""
        body = self.request.body
        form: Schema = body.get("output_config") or body.get("text") or {}
        return form["format"]["schema"]

    def asks_for(self, *path: str) -> bool:
        """Return whether the answer has a field, given by its path through objects and lists."""
        schema: Any = self.schema
        for name in path:
            schema = schema.get("items", schema)
            if name not in schema.get("properties", {}):
                return False
            schema = schema["properties"][name]
        return True


def tool_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Split tool output into one block per use, with the tool's name if stated."""
    _, *blocks = _TOOL.split(text) if _TOOL.search(text) else ["", "", text]
    yield from zip(blocks[::2], blocks[1::2], strict=True)


def passages(text: str, introduced: Mapping[str, str]) -> Iterator[Passage]:
    """Split tool output into passages: each begins with its ref in brackets at the start of a line."""
    for tool, block in tool_blocks(text):
        found = list(_SOURCE.finditer(block))
        for number, match in enumerate(found):
            end = found[number + 1].start() if number + 1 < len(found) else len(block)
            shown = block[match.end() : end].partition("</data>")[0]
            yield Passage(tool, match[1], shown, introduced.get(match[1], match[1]))


def sentences(text: str) -> Iterator[str]:
    """Split a text into sentences."""
    for sentence in _SENTENCE_END.split(text):
        if stripped := sentence.strip(" \t>*#|"):
            yield stripped


def speaks_of(text: str, *terms: str) -> bool:
    """Return whether a text contains every word of every term; Chinese terms are searched for unchanged."""
    words = {word.casefold() for word in _WORD.findall(text)}
    return all(
        term in text if _CHINESE.search(term) else words.issuperset(word.casefold() for word in _WORD.findall(term))
        for term in terms
    )


_LEAST: Final[Mapping[str, Any]] = {"string": "", "integer": 0, "number": 0, "boolean": False}


def _nothing(schema: Schema) -> Any:
    """Return the empty value of a type."""
    options: list[Schema] = schema.get("anyOf") or [schema]
    if any(option.get("type") == "null" for option in options):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    kind: str = options[0].get("type", "null")
    if kind == "integer" and "from 1" in str(schema.get("description", "")).lower():
        return 1
    return list[Any]() if kind == "array" else _LEAST.get(kind)


def _filled(schema: Schema, known: Any) -> Any:
    """Fit a value to a schema: unknown fields are dropped, missing ones are empty."""
    if schema.get("type") == "object" and isinstance(known, dict):
        given = cast("Schema", known)
        properties: dict[str, Schema] = schema.get("properties", {})
        return {name: _filled(inner, given.get(name, _empty(inner))) for name, inner in properties.items()}
    if schema.get("type") == "array" and isinstance(known, list):
        inner: Schema = schema.get("items", {})
        return [_filled(inner, item) for item in cast("list[Any]", known)]
    return known


def _empty(schema: Schema) -> Any:
    return _filled(schema, {}) if schema.get("type") == "object" else _nothing(schema)
