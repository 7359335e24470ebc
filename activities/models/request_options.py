"""What is the same in asking every provider."""

import hashlib
import json
from collections.abc import Mapping

from pydantic import JsonValue

from activities.contracts import ToolCall
from activities.models.protocol import ModelCall
from activities.turn_kinds.work import WorkTask


def may_use_tools(call: ModelCall) -> bool:
    """Tell whether the model may ask for tools in this turn.

    Tools that are listed and may not be used are still sent where a provider can forbid them, for the prompt's
    beginning then stays the same and its cache holds.
    """
    return bool(call.tools) and not (isinstance(call.task, WorkTask) and call.task.must_answer)


def offered_tools(call: ModelCall) -> frozenset[str]:
    """Name the tools that the model may use in this turn."""
    return frozenset(tool.name for tool in call.tools) if may_use_tools(call) else frozenset()


def headers(call: ModelCall) -> dict[str, str]:
    """Name the call across attempts, for providers and gateways that heed it."""
    key = call.idempotency_key
    fits = key.isascii() and key.isprintable() and len(key) <= 200
    return {"Idempotency-Key": key if fits else hashlib.sha256(key.encode()).hexdigest()}


def cache_key(call: ModelCall) -> str:
    """Name the stable beginning of the prompt, so that a provider sends equal ones to the same machine."""
    stable = [call.model, call.system, [tool.model_dump(mode="json") for tool in call.tools]]
    return hashlib.sha256(json.dumps(stable).encode()).hexdigest()[:32]


def arguments_text(call: ToolCall) -> str:
    """Write a call's arguments as JSON; those that could not be read are left out."""
    arguments: Mapping[str, JsonValue] = {} if call.malformed else call.arguments
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
