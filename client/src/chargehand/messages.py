"""The messages of sessions and conversations: every query and update, defined once.

`Session` and `Conversation`, their synchronous versions, the test stand-in, Nexus, the HTTP API with its OpenAPI
document, the console and the MCP server derive from these tables; the workflows handle the messages. The
rules of a message's content are on its contract. A row's name goes over the wire: it is never changed or reused for
something else.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Generic, Literal, ParamSpec, TypedDict, TypeVar, cast, overload

from chargehand.contracts import (
    Answer,
    CallDecision,
    ConversationMessage,
    Interruption,
    LostCharges,
    Plan,
    PlanDecision,
    PlanEdit,
    RaisedLimits,
    Reply,
    Status,
    Transcript,
    TypedByPeople,
    UserMessage,
)
from chargehand.contracts.base import attribute_docstrings, contract

Fields = ParamSpec("Fields")
Input = TypeVar("Input", bound=TypedByPeople | None)
Output = TypeVar("Output")
Content = TypeVar("Content", bound=TypedByPeople)


class SessionMessage(Generic[Fields, Input, Output]):
    """One row: the input and the output of a message.

    As an attribute of a session, it is a method that takes the input's fields and returns the output.
    """

    name: str
    """Its name on the wire and in all interfaces."""

    def __init__(
        self,
        kind: Literal["query", "update"],
        takes: type[TypedByPeople] | None,
        returns: type[Output],
        *,
        is_for_operators: bool = False,
    ) -> None:
        self.kind: Final = kind
        self.takes: Final = takes
        self.returns: Final = returns
        self.is_for_operators: Final = is_for_operators
        """Whether only an operator's command sends it; no interface then offers it to users."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self._table = name, owner

    @property
    def summary(self) -> str:
        """A one-line summary: the docstring below the row."""
        return attribute_docstrings(self._table)[self.name].rstrip(".")

    def content(self, *args: Fields.args, **fields: Fields.kwargs) -> Input:
        if args:
            first = next(iter(self.takes.model_fields), "") if self.takes else ""
            raise TypeError(f"{self.name}() takes its fields by name" + (f": {self.name}({first}=…)" if first else ""))
        return cast("Input", None if self.takes is None else contract(self.takes, *args, **fields))

    @overload
    def __get__(self, session: None, owner: type) -> "SessionMessage[Fields, Input, Output]": ...

    @overload
    def __get__(self, session: "MessagesWithoutAwait", owner: type) -> Callable[Fields, Output]: ...

    @overload
    def __get__(self, session: "CommonMessages", owner: type) -> Callable[Fields, Coroutine[Any, Any, Output]]: ...

    def __get__(self, session: "CommonMessages | None", owner: type) -> Any:
        if session is None:
            return self

        def send(*args: Fields.args, **fields: Fields.kwargs) -> Any:
            return session.send(self, self.content(*args, **fields))

        send.__name__, send.__doc__ = self.name, self.summary
        return send


class Handled(TypedDict):
    """The arguments with which a workflow registers a message's handler."""

    name: str
    description: str


def handles(message: SessionMessage[..., Any, Any]) -> Handled:
    """Return name and description of a message's handler: `@workflow.update(**handles(Messages.tell))`."""
    return {"name": message.name, "description": f"{message.summary}."}


def _query(returns: type[Output]) -> SessionMessage[[], None, Output]:
    return SessionMessage("query", None, returns)


@overload
def _update(takes: None, returns: type[Output]) -> SessionMessage[[], None, Output]: ...


@overload
def _update(takes: Callable[Fields, Content], returns: type[Output]) -> SessionMessage[Fields, Content, Output]: ...


def _update(takes: Any, returns: type[Output]) -> SessionMessage[..., Any, Output]:
    return SessionMessage("update", takes, returns)


class CommonMessages:
    """Messages of both sessions and conversations."""

    status = _query(Status)
    """Return state, plan, spend, open questions and waiting tool calls."""
    decide_call = _update(CallDecision, Status)
    """Approve, edit or reject a tool call that awaits approval."""
    raise_limits = _update(RaisedLimits, Status)
    """Raise the session's total turns, budget or time; a paused one continues."""
    book_charges = SessionMessage[..., LostCharges, Status]("update", LostCharges, Status, is_for_operators=True)
    """Book charges that a restored database has lost, even above the budget."""

    send: Any
    """Send one of these messages with its content."""


class Messages(CommonMessages):
    """The messages of sessions: a row per query and update, with name, input and output."""

    plan = _query(cast("type[Plan | None]", Plan | None))
    """Return the plan; null until there is one."""
    decide_plan = _update(PlanDecision, Plan)
    """Approve, edit or reject a plan that awaits approval; return the plan that is carried out."""
    answer = _update(Answer, Status)
    """Answer or decline the question of a subtask, which then continues."""
    tell = _update(UserMessage, Status)
    """Send agents a message, which they read at their next turn."""
    interrupt = _update(Interruption, Status)
    """Interrupt the tools that agents are using; the agents continue with their next turn."""
    edit_plan = _update(PlanEdit, Plan)
    """Change subtasks of the plan that have not begun, in order and validated together; return the plan."""
    finish_now = _update(None, Status)
    """Stop the running subtasks, and write the report from the results so far."""


class ConversationMessages(CommonMessages):
    """The messages of conversations."""

    say = _update(ConversationMessage, Reply)
    """Send a message and return the reply; messages are answered in order of arrival."""
    transcript = _query(Transcript)
    """Return the transcript, and the agent that has the floor."""
    close = _update(None, Status)
    """End the conversation once the current message is answered; jobs are stopped."""


class MessagesWithoutAwait(CommonMessages):
    """Protocol of the synchronous methods."""


Row = SessionMessage[..., Any, Any]


def _rows(table: type) -> Mapping[str, Row]:
    own = {name: row for each in reversed(table.__mro__) for name, row in vars(each).items()}
    return cast(
        "Mapping[str, Row]",
        {name: row for name, row in own.items() if isinstance(row, SessionMessage) and not row.is_for_operators},
    )


MESSAGES: Final = _rows(Messages)
UPDATES: Final = {name: row for name, row in MESSAGES.items() if row.kind == "update"}
CONVERSATION_MESSAGES: Final = _rows(ConversationMessages)
