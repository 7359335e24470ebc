"""The whole decision core, supervisor and subtasks, under everything that can happen to it, in any order."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from chargehand.contracts import Answer, Interruption, PlanDecision, PlanEdit, Status, UserMessage
from chargehand_plugins.testing.in_memory.jobs import PAYLOADS
from tests.simulation import budget
from tests.simulation.invariants import Invariants
from tests.simulation.strategies import limits, scenarios, scripts
from tests.simulation.world import ROOT, UNANSWERED, World

pytestmark = UNANSWERED

_EVENTS = st.sampled_from([1, 2, 3, 5, 8, 13])
_WHICH = st.integers(0, 5)
_SELDOM = st.sampled_from([False, False, False, True])
_TURNS = st.sampled_from([None, 10, 30, 60, 61])
_DOLLARS = st.sampled_from([None, Decimal(1), Decimal(3), Decimal(5), Decimal(6)])
_SECONDS = st.sampled_from([None, 100, 1_000])
_SUBTASKS = st.sampled_from([None, "T1", "T2", "T3", "T1/T1"])
_CHANGES: list[dict[str, object]] = [
    *({"edit": "drop", "subtask": id_} for id_ in ("T1", "T2", "T3", "T9")),
    {"edit": "reword", "subtask": "T2", "instruction": "Find out about the second topic anew."},
    {"edit": "reroute", "subtask": "T3", "agent": "writer"},
    {"edit": "reorder", "subtask": "T3", "depends_on": [], "before": "T1"},
    *(
        {"edit": "add", "subtask": {"id": "T9", "agent": agent, "instruction": "Find out more about that.", **after}}
        for agent in ("reader", "supervisor")
        for after in ({"depends_on": ["T1"]}, {})
    ),
]
_DOWN = st.sampled_from([timedelta(0), timedelta(milliseconds=100), timedelta(seconds=2)])


class DecisionCore(RuleBasedStateMachine):
    """One session: rules let it run for a while and interfere in between; at the end all of it is judged."""

    drawn = scenarios()

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.world = World(data.draw(self.drawn))
        self.server = self.world.server
        self.laws = Invariants(self.world.scenario.request.limits)
        self.world.watch = self.laws
        self.world.open()
        self.updates = 0

    def is_running(self) -> bool:
        return self.world.root.is_open and bool(self.world.root.history)

    @rule(after=_EVENTS)
    def go_on(self, after: int) -> None:
        """Activities answer, fail and time out; messages arrive, early and late."""
        self._let_happen(after)

    @rule(after=_EVENTS, down_for=_DOWN)
    def crash(self, after: int, down_for: timedelta) -> None:
        """I13, I21: workflows rebuilt from their histories produce the same commands and the same books."""
        self._let_happen(after)
        self.laws.i21_a_crash_changes_no_books(self.world, down_for)

    @rule(after=_EVENTS, really=_SELDOM)
    def cancel(self, after: int, *, really: bool) -> None:
        self._let_happen(after)
        if really:
            self.server.cancel(ROOT)

    @rule(after=_EVENTS, which=_WHICH)
    def cancel_a_descendant(self, after: int, which: int) -> None:
        for below in self._open_descendant(after, which):
            self.server.cancel(below)

    @rule(after=_EVENTS, which=_WHICH)
    def terminate_a_descendant(self, after: int, which: int) -> None:
        for below in self._open_descendant(after, which):
            self.laws.terminated.add(below)
            self.server.terminate(below)

    @rule(after=_EVENTS, really=_SELDOM)
    def finish_now(self, after: int, *, really: bool) -> None:
        self._let_happen(after)
        if really:
            self._update("finish_now")

    @rule(after=_EVENTS, turns=_TURNS, dollars=_DOLLARS, seconds=_SECONDS)
    def raise_limits(self, after: int, turns: int | None, dollars: Decimal | None, seconds: int | None) -> None:
        self._let_happen(after)
        self.laws.raised(turns, dollars, None if seconds is None else timedelta(seconds=seconds))
        self._update("raise_limits", {"max_turns": turns, "budget_usd": dollars, "deadline": seconds})

    @rule(after=_EVENTS, really_not=_SELDOM)
    def decide(self, after: int, *, really_not: bool) -> None:
        self._let_happen(after)
        self._update("decide_plan", PlanDecision(decision="reject" if really_not else "approve"))

    @rule(after=_EVENTS, subtask=st.sampled_from(["T1", "T2", "T3"]))
    def answer(self, after: int, subtask: str) -> None:
        self._let_happen(after)
        self._update("answer", Answer(subtask=subtask, text="The first reading is meant."))

    @rule(after=_EVENTS, subtask=_SUBTASKS)
    def tell(self, after: int, subtask: str | None) -> None:
        self._let_happen(after)
        self._update("tell", UserMessage(text=f"Message {self.updates}.", subtask=subtask))

    @rule(after=_EVENTS, subtask=_SUBTASKS)
    def interrupt(self, after: int, subtask: str | None) -> None:
        self._let_happen(after)
        self._update("interrupt", Interruption(subtask=subtask))

    @rule(after=_EVENTS, edits=st.lists(st.sampled_from(_CHANGES), min_size=1, max_size=3))
    def edit(self, after: int, edits: list[dict[str, object]]) -> None:
        self._let_happen(after)
        self._update("edit_plan", PlanEdit.model_validate({"edits": edits}))

    @rule(after=_EVENTS, which=_WHICH)
    def duplicate_a_message(self, after: int, which: int) -> None:
        """I14: messages between the workflows arrive once more, out of order."""
        self._let_happen(after)
        if which < len(self.server.sent_signals):
            self.server.signal(*self.server.sent_signals[-1 - which])

    @precondition(is_running)
    @rule()
    def look(self) -> None:
        """Observers are answered and change nothing."""
        found = self.server.query(ROOT, "status")
        assert found is not None
        status: Status = PAYLOADS.from_payload(found, Status)
        assert status.session == ROOT

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.server.run()
            self.laws.at_the_end(self.world)
            for execution in self.server.recorded:
                execution.replay()
        finally:
            self.server.close()

    def _open_descendant(self, after: int, which: int) -> list[str]:
        """Let some events happen, and return the id of one of the descendants, if there are as many."""
        self._let_happen(after)
        return [each.workflow_id for each in self.world.root.descendants if each.is_open][which : which + 1]

    def _let_happen(self, events: int) -> None:
        for _ in range(events):
            self.server.step()

    def _update(self, name: str, argument: object = None) -> None:
        self.updates += 1
        payloads = [] if argument is None else [PAYLOADS.to_payload(argument)]
        self.server.update(ROOT, f"update {self.updates}", name, payloads)


class Simple(DecisionCore):
    drawn = scenarios(
        scripted=scripts(("reader", "analyst", "writer"), ("success", "partial", "tools", "no_answer")),
        limited=limits(seconds=(600,)),
        fates=("answers", "attempt lost"),
    )


class Nested(DecisionCore):
    drawn = scenarios(
        scripted=scripts(("supervisor", "reader", "supervisor"), ("success", "tools", "too_big", "out_of_scope")),
        limited=limits(turns=(20, 40, 12), dollars=("2", "5"), seconds=(600, 60)),
        fates=("answers", "attempt lost", "hangs"),
    )


class Poor(DecisionCore):
    drawn = scenarios(
        scripted=scripts(works=("success", "tools", "confidence_too_low", "ambiguous_input")),
        limited=limits(turns=(3, 4, 5, 6), dollars=("0.3", "0.4", "0.5")),
    )


@pytest.mark.nightly
class TestDecisionCore(DecisionCore.TestCase):
    """I01-I10, I13, I15, I20, I21 hold whatever happens."""

    settings = budget.settings_for(60)


class TestSimpleSessions(Simple.TestCase):
    """The same for sessions whose models mostly do what they are asked."""

    settings = budget.settings_for(30)


@pytest.mark.nightly
class TestNestedSessions(Nested.TestCase):
    """The same for nested sessions."""

    settings = budget.settings_for(30)


@pytest.mark.nightly
class TestPoorSessions(Poor.TestCase):
    """The same for sessions that can barely pay for what they do."""

    settings = budget.settings_for(30)
