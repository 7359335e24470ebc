"""Sessions whose models answer by a script of `tests.scripted_model`, in virtual time: for laws about time.

session = VirtualSession(request, Script().plan(subtask("T1")).work("T1", Held(answer("Late."), seconds=90)))
session.run_until(60)
session.update("finish_now")
report = session.report()
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeVar

from pydantic import BaseModel

from activities.models.protocol import ModelCall
from activities.turn.activity import interpret
from activities.turn.contracts import TurnRequest
from chargehand.contracts import Report, SessionRequest, Status
from chargehand_plugins.testing.in_memory.executions import Execution
from chargehand_plugins.testing.in_memory.jobs import PAYLOADS
from chargehand_plugins.testing.in_memory.sdk import ScheduleActivity
from chargehand_plugins.webhooks.activity import SessionEnd
from tests.recording_server import Update
from tests.scripted_model import Held, Respond, reply_of
from tests.simulation.invariants import report_of
from tests.simulation.script import Script
from tests.simulation.world import ROOT, Answer, Scenario, World

_SECOND: Final = 1_000_000_000
_Task = TypeVar("_Task", bound=BaseModel)


@dataclass
class _Directed(World):
    respond: Respond = field(kw_only=True)
    replies: int = 0

    def _turn(
        self,
        execution: Execution,
        asked: ScheduleActivity,
        request: TurnRequest,
        label: str,  # noqa: ARG002  # needed for drawn fates
        after: timedelta,
    ) -> Answer:
        """Reply what the script says and when it says so; turns held without a time never arrive."""
        self.turns_asked.append((execution, request, asked))
        call = ModelCall.model_construct(
            task=request.task, agent=request.agent, max_output_tokens=request.max_output_tokens
        )
        turn = reply_of(self.respond, call)
        while isinstance(turn, Held):
            if turn.seconds is None:
                return Answer(after, hangs=True)
            after += timedelta(seconds=turn.seconds)
            turn = reply_of(turn.turn, call)
        self.replies += 1
        return Answer(after, PAYLOADS.to_payload(interpret(turn, request.task.answer_type)))


class VirtualSession:
    """A session in virtual time: its clock advances as fast as things happen."""

    def __init__(self, request: SessionRequest, respond: Respond, latency: int = 0) -> None:
        """Start a session whose messages take this many milliseconds."""
        self._world = _Directed(Scenario(request=request, script=Script(), latencies=(latency,)), respond=respond)
        self._server = self._world.server
        self._world.open()

    @property
    def seconds(self) -> float:
        return self._server.now / _SECOND

    def tasks(self, kind: type[_Task]) -> list[_Task]:
        return [turn.task for _, turn, _ in self._world.turns_asked if isinstance(turn.task, kind)]

    @property
    def replies(self) -> int:
        return self._world.replies

    def run_until(self, seconds: float) -> None:
        """Let everything happen up to a moment, in seconds since the start."""
        self._server.run_until(round(seconds * _SECOND))

    def update(self, name: str, argument: object = None) -> Update:
        payloads = [] if argument is None else [PAYLOADS.to_payload(argument)]
        return self._server.update(ROOT, f"update {len(self._server.updates)}", name, payloads)

    def cancel(self) -> tuple[str, list[str]]:
        """Cancel the session; return how it ended, and what webhooks were told about that."""
        self._server.cancel(ROOT)
        try:
            self._server.run()
        finally:
            self._server.close()
        return self._world.root.status, [
            notice.about.state for notice in self._world.notices if isinstance(notice.about, SessionEnd)
        ]

    def status(self) -> Status:
        found = self._server.query(ROOT, "status")
        assert found is not None
        return PAYLOADS.from_payload(found, Status)

    def report(self) -> Report:
        """Let everything happen, and return the report."""
        try:
            self._server.run()
        finally:
            self._server.close()
        report = report_of(self._world)
        assert report is not None, self._world.root.failure
        return report
