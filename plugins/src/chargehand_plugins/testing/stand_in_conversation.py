"""A stand-in for a conversation, with scripted replies and without a server."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, cast

from chargehand.contracts import (
    ConversationEnd,
    ConversationMessage,
    ConversationRequest,
    Event,
    Reply,
    SessionRequest,
    Status,
    Transcript,
    TranscriptLine,
    TypedByPeople,
)
from chargehand.errors import SessionCancelled, UpdateRefused
from chargehand.messages import Input, Output, SessionMessage
from chargehand.session import Conversation
from chargehand.wire import ErrorType

_AT: Final = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass
class Talk:
    request: ConversationRequest
    replies: Sequence[str]
    """One reply per message; the last one is for all further messages."""
    lines: list[TranscriptLine] = field(default_factory=list[TranscriptLine])
    sent: list[tuple[str, TypedByPeople | None]] = field(default_factory=list[tuple[str, TypedByPeople | None]])
    is_over: bool = False
    was_cancelled: bool = False

    def add(self, speaker: str, text: str) -> int:
        """Add a line to the transcript; return its position."""
        number, kind = len(self.lines) + 1, "message" if speaker == "user" else "reply"
        self.lines.append(TranscriptLine(number=number, kind=kind, speaker=speaker, text=text, at=_AT))
        return number


class StandInConversation(Conversation):
    """A conversation with scripted replies."""

    def __init__(self, conversation_id: str, talk: Talk) -> None:  # it has no client
        self.id = conversation_id
        self._talk = talk

    async def request(self) -> SessionRequest:
        return self._talk.request.as_session()

    async def recorded_status(self) -> Status:
        return await self.status()

    async def send(
        self,
        message: SessionMessage[..., Input, Output],
        content: Input,
        *,
        id: str | None = None,  # noqa: A002, ARG002  # as in Temporal; as in `Conversation`
    ) -> Output:
        """Record an update in `sent`; return the reply, the transcript or the status."""
        talk = self._talk
        if message.kind == "update":
            if talk.is_over:
                raise UpdateRefused("The conversation has ended.", ErrorType.UPDATE_REFUSED)
            talk.sent.append((message.name, content))
        if message.name == "close":
            talk.is_over = True
        answer: object = Status(
            session=self.id, goal=talk.request.goal, state="finished" if talk.is_over else "awaiting_message"
        )
        if isinstance(content, ConversationMessage):
            agent, replied = talk.request.agent or "agent", sum(line.kind == "reply" for line in talk.lines)
            line_number, text = talk.add("user", content.text), talk.replies[min(replied, len(talk.replies) - 1)]
            answer = Reply(number=talk.add(agent, text), answers=(line_number,), agent=agent, text=text, at=_AT)
        elif message.returns is Transcript:
            answer = Transcript(lines=tuple(talk.lines), floor=talk.request.agent or "agent")
        return cast("Output", answer)

    async def result(self) -> ConversationEnd:
        """Return how it ended, as if it were closed now."""
        if self._talk.was_cancelled:
            raise SessionCancelled(f"Session '{self.id}' was cancelled.")
        kinds = [line.kind for line in self._talk.lines]
        return ConversationEnd(reason="closed", messages=kinds.count("message"), replies=kinds.count("reply"))

    async def cancel(self) -> None:
        """Cancel it: its result is `SessionCancelled` from now on."""
        self._talk.is_over = self._talk.was_cancelled = True

    async def follow(self, after: str | None = None) -> AsyncGenerator[Event]:  # noqa: ARG002  # nothing happens
        for event in cast("tuple[Event, ...]", ()):
            yield event
