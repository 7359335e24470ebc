"""What spans hold of conversations, where an operator wants that."""

import json
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.rounds import ToolCall
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.protocol import Message, ToolText
from chargehand.spans import SpanAttribute
from chargehand_plugins.opentelemetry.content import Content

SECRET: Final = "the-worker-s-own-key"


def _text(words: str, times: int, secret: str) -> str:
    return words * times + secret * 2


def _call(text: str) -> ToolCall:
    return ToolCall(id="1", tool="search", arguments={"query": [text]})


def _message(role: str, text: str) -> Message:
    match role:
        case "user":
            return Message(role="user", text=text)
        case "tools":
            return Message(role="tools", results=(ToolText(call_id="1", text=text),))
        case _:
            return Message(role="assistant", calls=(_call(text),))


_TEXTS: Final = st.builds(_text, st.text(min_size=1), st.integers(1, 3_000), st.sampled_from(["", SECRET]))
_MESSAGES: Final = st.builds(_message, st.sampled_from(["user", "assistant", "tools"]), _TEXTS)


@given(st.lists(_MESSAGES, min_size=1, max_size=20))
def test_the_latest_of_a_conversation_is_kept_in_order_and_without_keys(messages: list[Message]) -> None:
    """However long it is, what is exported is JSON of a bounded size that ends with the latest message."""
    call = ModelCall.model_construct(system=f"Be {SECRET}.", messages=tuple(messages))

    written = Content([SECRET]).of(call)

    text = written[SpanAttribute.INPUT_MESSAGES]
    read = json.loads(text)
    roles = [message.role.removesuffix("s") for message in messages]
    assert [each["role"] for each in read] == roles[-len(read) :]
    assert all(each["parts"] for each in read)
    assert SECRET not in f"{written}"
    assert len(read) == 1 or sum(len(json.dumps(each["parts"], ensure_ascii=False)) for each in read) <= 2 * 64_000


@given(st.sampled_from(["answer", "tools", "truncated", "refused", "empty", "malformed"]), st.builds(_call, _TEXTS))
def test_a_reply_ends_for_one_of_the_convention_s_reasons(stop: str, call: ToolCall) -> None:
    """Its text and the calls that it asks for are parts of one message."""
    reply = ModelReply.model_construct(stop=stop, text="Known.", tool_calls=(call,))

    [message] = json.loads(Content([]).of(reply)[SpanAttribute.OUTPUT_MESSAGES])

    assert [part["type"] for part in message["parts"]] == ["text", "tool_call"]
    assert message["finish_reason"] in {"stop", "tool_call", "length", "content_filter", "error"}
