"""A scripted provider of language models, over the real wires on loopback."""

from tests.scripted_provider.drafts import answer, plan, report, subtask
from tests.scripted_provider.exchange import (
    NO_USAGE,
    Exchange,
    Respond,
    ScriptedMessage,
    ScriptedReply,
    ScriptedRequest,
    Tokens,
    ToolUse,
    calling,
    dripping,
    dropping,
    empty,
    error,
    hanging,
    raw,
    refusing,
    resetting,
    saying,
    stalling,
    truncated,
)
from tests.scripted_provider.faults import Faulty, step_of
from tests.scripted_provider.server import ScriptedProvider
from tests.scripted_provider.session import canned_session

__all__ = [
    "NO_USAGE",
    "Exchange",
    "Faulty",
    "Respond",
    "ScriptedMessage",
    "ScriptedProvider",
    "ScriptedReply",
    "ScriptedRequest",
    "Tokens",
    "ToolUse",
    "answer",
    "calling",
    "canned_session",
    "dripping",
    "dropping",
    "empty",
    "error",
    "hanging",
    "plan",
    "raw",
    "refusing",
    "report",
    "resetting",
    "saying",
    "stalling",
    "step_of",
    "subtask",
    "truncated",
]
