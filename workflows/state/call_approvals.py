"""Tool calls of a session's whole tree that need approval by a policy or a person, and the decisions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import PrivateAttr

from chargehand.contracts import CallDecision, Obligation, PendingCall, PolicyMode, left_out
from chargehand.contracts.problems import join_problems
from workflows.carried import Carried
from workflows.mailbox.contracts import CallReply, CallRequest, CallVerdict, Envelope
from workflows.rules.refusal import Refused
from workflows.rules.tool_policy import Arguments, PolicyLedger, acting_call, call_hash, doubts, is_judged

ALLOWED: Final = frozenset[CallVerdict]({"allowed", "approved", "edited"})


@dataclass(eq=False)
class Pending:
    """A call that is waiting for a person."""

    shown: PendingCall
    request: CallRequest
    number: int
    """Number of the request in its subtask's mailbox."""
    reply: CallReply | None = None
    is_delivered: bool | None = None
    """Whether the subtask was still running and received the reply; None until known."""

    def decide(self, reply: CallReply) -> None:
        self.reply = reply

    def deliver(self, is_delivered: bool) -> None:  # noqa: FBT001  # a fact, not an option
        self.is_delivered = is_delivered


class Approvals(Carried):
    """Decides by policy at once, and keeps calls that wait for a person."""

    asked: int = left_out(0)
    policy: PolicyLedger = left_out(PolicyLedger())
    acted: dict[str, bool] = left_out({})
    """Acting calls that were made, by path of the subtask and hash; true if known to be applied."""
    _pending: dict[str, Pending] = PrivateAttr(default_factory=dict[str, Pending])
    """Calls without a decision, by id."""

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        return tuple(each.shown for each in self._pending.values())

    @property
    def open_calls(self) -> tuple[Pending, ...]:
        """The pending calls with their requests."""
        return tuple(self._pending.values())

    @property
    def next_id(self) -> str:
        return f"c{self.asked + 1}"

    def needs_judge(self, request: CallRequest) -> bool:
        """Return whether a model has to judge a call that otherwise needs no person."""
        if request.is_doubtful or request.needs_approval or request.why or not is_judged(request.policy):
            return False
        is_new = self._before(request, request.arguments) is None
        bound = self._against(request, request.arguments, "enforce") or doubts(request.policy, request.arguments)
        return is_new and not bound

    def doubt_of_another(self, request: CallRequest) -> str:
        """Explain why the same call of another subtask requires a person's decision; empty if it does not."""
        calls = self._calls_made(request, request.arguments)
        if any(not is_applied for path, is_applied in calls.items() if path != request.subtask):
            return "the same call was made before, and it is not known whether it was applied"
        return ""

    def judge(self, request: CallRequest, doubt: str = "") -> CallReply | None:
        """Decide about a call by policy; None if a person must, for instance because a model doubts it."""
        if request.is_doubtful:
            return None
        is_applied = self._before(request, request.arguments)
        if is_applied is not None:
            return CallReply(verdict="applied_before" if is_applied else "unknown_before")
        enforced = _in_mode(request.policy, "enforce")
        if violations := self.policy.violations(enforced, request.arguments):
            return CallReply(verdict="denied", reason=join_problems(violations))
        if early := self.policy.too_early(enforced, request.arguments):
            return CallReply(verdict="too_early", reason=join_problems(early))
        if request.needs_approval or request.why or doubt or doubts(request.policy, request.arguments):
            return None
        return self._allow(request, "allowed", request.arguments)

    def note_outcome(self, acted: str, *, is_applied: bool) -> None:
        """Record whether an acting call was applied; one that was not may be made again."""
        if is_applied:
            self.acted[acted] = True
        else:
            self.acted.pop(acted, None)

    def open(self, envelope: Envelope, request: CallRequest, until: datetime, doubt: str = "") -> Pending:
        """Hold a requested call until a person decides."""
        shown = request.make(
            PendingCall,
            id=self.next_id,
            hash=call_hash(request.agent, request.tool, request.arguments),
            why=join_problems(filter(None, (request.why, *doubts(request.policy, request.arguments), doubt))),
            workflow_id=envelope.sender,
            open_until=until,
        )
        self.asked += 1
        self._pending[shown.id] = Pending(shown, request, envelope.number)
        return self._pending[shown.id]

    def expire(self, pending: Pending, why: str) -> CallReply:
        self._pending.pop(pending.shown.id, None)
        return CallReply(verdict="expired", reason=why)

    def abandon(self, workflow_id: str, why: str) -> None:
        """Close the pending calls of a workflow that was terminated or interrupted."""
        for pending in self.open_calls:
            if pending.shown.workflow_id == workflow_id:
                pending.decide(self.expire(pending, why))

    def check(self, decision: CallDecision) -> Pending:
        pending = self._pending.get(decision.call)
        if pending is None:
            known = ", ".join(self._pending) or "none"
            raise Refused(f"call: '{decision.call}' does not wait for a decision; calls that do: {known}.")
        if decision.hash != pending.shown.hash:
            raise Refused(f"hash: is not that of '{decision.call}', which is {pending.shown.hash}")
        if decision.decision != "reject":
            self._refuse_unmakeable(pending.request, _decided_arguments(pending, decision))
        return pending

    def decide(self, decision: CallDecision) -> Pending:
        pending = self.check(decision)
        match decision.decision:
            case "approve":
                reply = self._allow(pending.request, "approved", pending.request.arguments)
            case "edit":
                reply = self._allow(pending.request, "edited", _decided_arguments(pending, decision))
            case "reject":
                reply = CallReply(verdict="rejected", reason=decision.reason)
        pending.decide(reply.replace(by=decision.by))
        del self._pending[decision.call]
        return pending

    def withdraw(self, request: CallRequest, reply: CallReply) -> None:
        """Count a call as not made, because its subtask ended before it got the reply."""
        if reply.verdict not in ALLOWED:
            return
        arguments = request.arguments if reply.arguments is None else reply.arguments
        self.note_outcome(acting_call(request.subtask, request.tool, arguments), is_applied=False)
        self.policy.count(request.policy, arguments, -1)
        if request.is_doubtful:
            self._begin(request, request.arguments)
            self.policy.count(request.policy, request.arguments)

    def _begin(self, request: CallRequest, arguments: Arguments) -> None:
        self.acted[acting_call(request.subtask, request.tool, arguments)] = False

    def _calls_made(self, request: CallRequest, arguments: Arguments) -> dict[str, bool]:
        """Find the same acting call of any subtask, by path."""
        same = acting_call("", request.tool, arguments)
        calls = self.acted.items() if request.acts else ()
        return {acted.removesuffix(same): is_applied for acted, is_applied in calls if acted.endswith(same)}

    def _before(self, request: CallRequest, arguments: Arguments) -> bool | None:
        """Return whether the same call was applied for this subtask, its replacement, or the one it replaces."""
        own, calls = f"{request.subtask}/", self._calls_made(request, arguments).items()
        same = (is_applied for path, is_applied in calls if own.startswith(f"{path}/") or f"{path}/".startswith(own))
        return max(same, default=None)

    def _refuse_unmakeable(self, request: CallRequest, arguments: Arguments) -> None:
        """Refuse what a person cannot allow: a call that the policy denies or that has already been made."""
        is_own = request.is_doubtful and arguments == request.arguments
        if self._before(request, arguments) is not None and not is_own:
            raise Refused("The same call was made before, for this subtask. Reject it.")
        if request.is_doubtful:
            self.policy.count(request.policy, request.arguments, -1)
        problems = self._against(request, arguments, "enforce")
        if request.is_doubtful:
            self.policy.count(request.policy, request.arguments)
        if problems:
            raise Refused(f"The policy does not allow this call: {join_problems(problems)}. Edit or reject it.")

    def _against(self, request: CallRequest, arguments: Arguments, mode: PolicyMode) -> list[str]:
        policy = _in_mode(request.policy, mode)
        return [*self.policy.violations(policy, arguments), *self.policy.too_early(policy, arguments)]

    def _allow(self, request: CallRequest, verdict: CallVerdict, arguments: Arguments) -> CallReply:
        """Allow a call and count it; note what a report-only policy would have denied or passed to a person."""
        if request.acts:
            self._begin(request, arguments)
        if request.is_doubtful:
            self.policy.count(request.policy, request.arguments, -1)
        against = self._against(request, arguments, "report")
        against += doubts(request.policy, arguments, "report") if verdict == "allowed" else []
        self.policy.count(request.policy, arguments)
        reason = f"against the policy, which only reports: {join_problems(against)}" if against else ""
        reply = CallReply(verdict=verdict, reason=reason)
        return reply.replace(arguments=dict(arguments)) if verdict == "edited" else reply


def _in_mode(policy: Sequence[Obligation], mode: PolicyMode) -> list[Obligation]:
    return [each for each in policy if each.mode == mode]


def _decided_arguments(pending: Pending, decision: CallDecision) -> Arguments:
    return pending.request.arguments if decision.arguments is None else decision.arguments
