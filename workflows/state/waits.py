"""What a session waits for people to decide, and what they have decided."""

from datetime import datetime, timedelta
from typing import Final, Literal

from pydantic import PrivateAttr

from chargehand.contracts import DecisionRecord, Wait, WaitKind, left_out
from workflows.carried import Carried, present

Verdict = Literal["approved", "edited", "rejected", "answered", "raised", "none"]
VERDICTS: dict[Literal["approve", "edit", "reject"], Verdict] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
}
_QUESTION_TIME: Final = timedelta(minutes=15)
_DAY: Final = timedelta(days=1)
_SATURDAY: Final = 5


class Waits(Carried):
    decisions: list[DecisionRecord] = left_out([])
    """How waits ended, in order."""
    open: dict[str, Wait] = present({})
    """By id."""
    _verdicts: dict[str, tuple[Verdict, str]] = PrivateAttr(default_factory=dict[str, tuple[Verdict, str]])
    """What was decided about waits that have not ended yet, and by whom."""

    def begin(self, wait: Wait) -> None:
        self.open[wait.id] = wait

    def decide(self, wait_id: str, verdict: Verdict, by: str) -> None:
        """Note a decision that the session is about to act on."""
        if wait_id in self.open:
            self._verdicts[wait_id] = verdict, by

    def end(self, wait: Wait, at: datetime) -> DecisionRecord:
        del self.open[wait.id]
        verdict, by = self._verdicts.pop(wait.id, ("none", ""))
        self.decisions.append(DecisionRecord(wait=wait.id, kind=wait.kind, decision=verdict, by=by, at=at))
        return self.decisions[-1]

    @property
    def limits_id(self) -> str:
        """Id of the wait for higher limits: the one that is open, or the next."""
        return f"limits-{1 + sum(each.kind == 'limits' for each in self.decisions)}"


def usual_time(kind: WaitKind, now: datetime) -> timedelta:
    """Compute the time for a decision: for an answer 15 minutes, for anything else a working day.

    That ends at the same hour of the next day from Monday to Friday, in UTC.
    """
    if kind == "question":
        return _QUESTION_TIME
    then = now + _DAY
    while then.weekday() >= _SATURDAY:
        then += _DAY
    return then - now
