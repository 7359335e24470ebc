"""Public names for writing model providers; see docs/how-to/own-models.md."""

from activities.contracts.rounds import ToolCall
from activities.models.failures import ProviderError, ProviderFault
from activities.models.prices import Tokens, usage_of
from activities.models.protocol import CountsInput, Model, ModelCall, ModelReply
from activities.models.registry import ModelSettings
from activities.models.schemas import answer_schema, strict
from activities.turn_kinds.protocol import Message

__all__ = [
    "CountsInput",
    "Message",
    "Model",
    "ModelCall",
    "ModelReply",
    "ModelSettings",
    "ProviderError",
    "ProviderFault",
    "Tokens",
    "ToolCall",
    "answer_schema",
    "strict",
    "usage_of",
]
