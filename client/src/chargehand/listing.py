"""The list of sessions: its filters, and what the server knows about each session without a worker."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, TypedDict, Unpack, cast, get_args

from pydantic import BaseModel, ConfigDict, computed_field
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.converter import DataConverter, decode_typed_search_attributes

from chargehand.contracts import FailureCause, Question, SessionState
from chargehand.contracts.problems import one_line, printable
from chargehand.errors import InvalidInput
from chargehand.history.records import OpenCall
from chargehand.search_attributes import CREW, DOLLARS, STATE, STOP_REASON, TENANT, THREAD, TURNS
from chargehand.state_words import NEEDS, Standing, standing
from chargehand.visibility import OPEN, ROOT_SESSIONS, is_open, state_word
from chargehand.wire import SearchAttribute

WAITING_STATES: Final = tuple(NEEDS)
"""States in which a session waits for a person."""
_BY_STATUS: Final[Mapping[str, str]] = {
    "running": "Running",
    "finished": "Completed",
    "completed": "Completed",
    "failed": "Failed",
    "cancelled": "Canceled",
    "canceled": "Canceled",
    "terminated": "Terminated",
    "timed_out": "TimedOut",
}
"""States known to the server."""
STATES: Final = tuple(dict.fromkeys((*_BY_STATUS, *get_args(SessionState))))
"""States that a list can be filtered by: Chargehand's and Temporal's."""
_GOAL_CHARACTERS: Final = 100
_LONGEST_WORD: Final = 1_000
GOAL: Final = "goal"
_FOLLOWS: Final = "follows"


class SessionSummary(BaseModel):
    """One line of a list of sessions.

    Fields from search attributes are empty if these are not registered, see `chargehand setup`.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    state: str
    """Temporal's state: running, paused, completed, failed, canceled, terminated, timed_out."""
    started_at: datetime
    ended_at: datetime | None
    step: str = ""
    """Chargehand's state, such as `executing` or `awaiting_approval`."""
    goal: str = ""
    """The goal, in one line of 100 characters at most."""
    crew: str = ""
    tenant: str = ""
    waiting_for: str = ""
    """What it needs from a person, if it is waiting."""
    stop_reason: str = ""
    """Why it stopped, if it has a report."""
    verification: str = ""
    """The verification of the weakest claim in its report; empty without claims or a report."""
    failure: FailureCause | None = None
    """Why the session failed, if it did."""
    cost_usd: float | None = None
    """US dollars spent, as of the latest change of state."""
    turns: int | None = None
    """LLM calls, as of the latest change of state."""
    is_cost_final: bool = False
    """Whether `cost_usd` is the total: the session has ended, and recorded its cost at the end."""
    follows: str = ""
    """Id of the session that it follows, if any."""
    thread: str = ""
    """Id of the first session of its thread; its own if it follows none."""

    @computed_field
    @property
    def shown(self) -> str:
        """Its state as shown on all screens, such as `executing`, `answered` or `stopped at its deadline`."""
        return self.standing.words

    @property
    def standing(self) -> Standing:
        """The words and the tone of its current state or its end."""
        if self.ended_at is None:
            return standing(self.step if self.step and self.state == "running" else self.state)
        return standing(self.state, self.stop_reason, self.verification or None)


def listing_memo(goal: str, follows: str | None = None) -> dict[str, str]:
    """Build the memo that lists show for a session."""
    return {GOAL: one_line(goal, _GOAL_CHARACTERS)} | ({_FOLLOWS: follows} if follows else {})


class SessionFilters(TypedDict, total=False):
    """Which sessions are listed; a filter that is absent or None matches all."""

    state: str | None
    """Chargehand's, such as `executing`, or Temporal's, such as `running`."""
    crew: str | None
    """The name of their crew."""
    tenant: str | None
    """The name of their tenant."""
    waiting: bool
    """Only sessions that wait for a person."""
    since: datetime | None
    """Only sessions started at or after this time."""
    before: datetime | None
    """Only sessions started before this time."""
    thread: str | None
    """The id of the first session of a chain of follow-ups."""
    ids: Sequence[str] | None
    """Only these sessions; at least one id."""


def sessions_query(**filters: Unpack[SessionFilters]) -> str:
    """Build the visibility query for root sessions."""
    if unknown := filters.keys() - SessionFilters.__annotations__:
        raise InvalidInput(f"{min(unknown)}: is not a filter; known are {', '.join(SessionFilters.__annotations__)}")
    terms = [ROOT_SESSIONS]
    if (state := filters.get("state")) is not None:
        terms.append(_state_term(state))
    if filters.get("waiting"):
        states = ", ".join(map(_quote, WAITING_STATES))
        terms.append(f"{OPEN} AND {SearchAttribute.STATE} IN ({states})")
    if (since := filters.get("since")) is not None:
        terms.append(f"StartTime >= {_instant(since, 'since')}")
    if (before := filters.get("before")) is not None:
        terms.append(f"StartTime < {_instant(before, 'before')}")
    if (ids := filters.get("ids")) is not None:
        if not ids:
            raise InvalidInput("ids: name at least one")
        terms.append(f"WorkflowId IN ({', '.join(_word(each, 'ids') for each in ids)})")
    named = ((name, filters.get(name)) for name in ("crew", "tenant", "thread"))
    terms += [f"{SearchAttribute[name.upper()]} = {_word(value, name)}" for name, value in named if value is not None]
    return " AND ".join(terms)


def _state_term(state: str) -> str:
    if state in _BY_STATUS:
        return f"ExecutionStatus = '{_BY_STATUS[state]}'"
    if state not in STATES:
        raise InvalidInput(f"state: there is no state '{printable(state, 40)}'; there are {', '.join(STATES)}")
    return f"{OPEN} AND {SearchAttribute.STATE} = '{state}'"


def _instant(value: datetime, field: str) -> str:
    try:
        return _quote(value.astimezone(UTC).isoformat())
    except (ValueError, OverflowError) as error:  # not representable in UTC
        raise InvalidInput(f"{field}: must be between the years 2 and 9998") from error


def _word(value: str, field: str) -> str:
    if not value.isprintable() or len(value) > _LONGEST_WORD:  # servers answer with errors that clients retry
        raise InvalidInput(f"{field}: must be printable, and have {_LONGEST_WORD:,} characters at most")
    return _quote(value)


def _quote(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


class _Memo(BaseModel):
    """The part of a session's memo that lists show; see `Memo` in `workflows.state.session`."""

    goal: str = ""
    follows: str = ""
    tenant: str = ""
    """The tenant according to the request, until the session is open and lists its own."""
    state: str = ""
    verification: str = ""
    failure: FailureCause | None = None
    questions: tuple[Question, ...] = ()
    calls: tuple[OpenCall, ...] = ()

    @property
    def waiting_for(self) -> str:
        """What the session needs from a person in its state; empty if it is not waiting."""
        if known := {"awaiting_approval": "a decision on its plan", "paused": "higher limits"}.get(self.state):
            return known
        questions, calls = [each.subtask for each in self.questions], [each.id for each in self.calls]
        needs = {"an answer to": questions, "a decision on": calls}
        return " and ".join(f"{words} {', '.join(those)}" for words, those in needs.items() if those)


async def summarise(execution: WorkflowExecutionInfo, converter: DataConverter) -> SessionSummary:
    """Build a summary from the server's listing of a session."""
    listed = decode_typed_search_attributes(execution.search_attributes)
    memo, opened = await _read_memo(execution, converter), is_open(execution)
    step = listed.get(STATE, memo.state if opened else "")
    return SessionSummary(
        id=execution.execution.workflow_id,
        state=state_word(execution),
        started_at=execution.start_time.ToDatetime(UTC),
        ended_at=None if opened else execution.close_time.ToDatetime(UTC),
        step=step,
        goal=memo.goal,
        crew=listed.get(CREW, ""),
        tenant=listed.get(TENANT) or memo.tenant,
        waiting_for=memo.waiting_for if opened and step in WAITING_STATES else "",
        stop_reason=listed.get(STOP_REASON, ""),
        verification=memo.verification,
        failure=None if opened else memo.failure,
        cost_usd=listed.get(DOLLARS),
        turns=listed.get(TURNS),
        is_cost_final=not opened and step in ("finished", "failed", "cancelled"),
        follows=memo.follows,
        thread=listed.get(THREAD, ""),
    )


async def _read_memo(execution: WorkflowExecutionInfo, converter: DataConverter) -> _Memo:
    """Decode a memo, omitting undecodable fields, such as ones encrypted with another key."""
    read: dict[str, Any] = {}
    for name, field in _Memo.model_fields.items():
        if name in execution.memo.fields:
            # Anyone may write a memo, and codecs raise arbitrary exceptions.
            with suppress(Exception):
                (read[name],) = await converter.decode([execution.memo.fields[name]], [cast("type", field.annotation)])
    return _Memo.model_construct(**read)
