"""The messages of a session and of a conversation: every query and update, written once.

`Session` and `Conversation`, their faces without `await`, the stand-in of tests, Nexus, the HTTP API with its OpenAPI
document, the console and the MCP server offer what stands in these tables; the workflows of these names handle it. The
rules of a message's content are on its contract. The name of a row travels: it is never changed, nor used for something
else.
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
    """One row: what is sent and what comes back.

    As an attribute of a session it is a method that takes the fields of the input, and returns the output.
    """

    name: str
    """On the wire, and in every way in."""

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
        """Whether only a command of an operator sends it, and no way in offers it to users."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self._table = name, owner

    @property
    def summary(self) -> str:
        """One line that says what it does: the docstring below the row."""
        return attribute_docstrings(self._table)[self.name].rstrip(".")

    def content(self, *args: Fields.args, **fields: Fields.kwargs) -> Input:
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
    """How a workflow registers the handler of a message."""

    name: str
    description: str


def handles(message: SessionMessage[..., Any, Any]) -> Handled:
    """Name and describe the handler of a message: `@workflow.update(**handles(Messages.tell))`."""
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
    """What a session and a conversation take alike."""

    status = _query(Status)
    """Return state, plan, spend, open questions and waiting tool calls."""
    decide_call = _update(CallDecision, Status)
    """Approve, edit or reject a tool call that awaits approval."""
    raise_limits = _update(RaisedLimits, Status)
    """Allow the session more turns, money or time, in total; a paused one continues."""
    book_charges = SessionMessage[..., LostCharges, Status]("update", LostCharges, Status, is_for_operators=True)
    """Book what was paid that a restored database has forgotten, even above the budget."""

    send: Any
    """How one of them is sent, with its content."""


class Messages(CommonMessages):
    """The table of sessions: a row for each query and update, with its name, input and output."""

    plan = _query(cast("type[Plan | None]", Plan | None))
    """Return the plan; null until there is one."""
    decide_plan = _update(PlanDecision, Plan)
    """Approve, edit or reject a plan that awaits approval; return the plan that is carried out."""
    answer = _update(Answer, Status)
    """Answer the question of a subtask, which then continues."""
    tell = _update(UserMessage, Status)
    """Have agents read a message at their next turn."""
    interrupt = _update(Interruption, Status)
    """End the tools that agents are using; they go on with their next turn."""
    edit_plan = _update(PlanEdit, Plan)
    """Change what has not begun of the plan, in order and checked as a whole; return the plan."""
    finish_now = _update(None, Status)
    """Stop the running subtasks, and write the report from the results so far."""


class ConversationMessages(CommonMessages):
    """The table of conversations."""

    say = _update(ConversationMessage, Reply)
    """Say something, and return the reply to it; messages are answered in the order in which they come."""
    transcript = _query(Transcript)
    """Return what was said, and who has the floor."""
    close = _update(None, Status)
    """End the conversation once the present message is answered; jobs are stopped."""


class MessagesWithoutAwait(CommonMessages):
    """Of those whose methods wait for the output."""


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
