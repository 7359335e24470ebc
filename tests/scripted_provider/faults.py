"""Random faults, the same in every run: the fate of a call depends on its session, its step and its repetition."""

from collections import Counter
from random import Random
from typing import Final, Literal

from tests.scripted_provider.exchange import Respond, ScriptedReply, ScriptedRequest, error, hanging, resetting

Fault = Literal["429", "500", "529", "reset", "hang"]
_REPLIES: Final[dict[Fault, ScriptedReply]] = {
    "hang": hanging(), "reset": resetting(),
    "429": error(429, {"retry-after": "0.2"}), "500": error(500), "529": error(529),
}  # fmt: skip
_SHARE: Final = 0.02
"""The share of each fault that may be billed; the scripted provider bills them all."""


class Faulty:
    """Fails in a share of its calls: 2 % hang, 2 % are reset in mid-answer, the others are 429, 500 and 529."""

    def __init__(self, respond: Respond, share: float, seed: int) -> None:
        self._respond = respond
        self._share = share
        self._seed = seed
        self._came: Counter[str] = Counter()
        self.injected: Counter[Fault] = Counter()

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        fault = self._fate(step_of(request))
        if fault is None:
            reply = self._respond(request)
            assert isinstance(reply, ScriptedReply)
            return reply
        self.injected[fault] += 1
        return _REPLIES[fault]

    def _fate(self, step: str) -> Fault | None:
        self._came[step] += 1
        drawn = Random(f"{self._seed}/{step}/{self._came[step]}").random()
        if drawn >= self._share:
            return None
        if drawn < 2 * _SHARE:
            return "hang" if drawn < _SHARE else "reset"
        return ("429", "500", "529")[int(drawn * 1_000_000) % 3]


def step_of(request: ScriptedRequest) -> str:
    """Return a name for the step of a call that is the same in each run of a session."""
    workflow_id, _, step = request.headers["idempotency-key"].split(":")
    session, *below = workflow_id.split("/")
    return "/".join((session, *below[1:], step))
