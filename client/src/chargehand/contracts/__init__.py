"""The typed values that cross Chargehand's boundaries. The public ones are in their module's `__all__`."""

# `as` marks names that workers share and callers do not need.
from chargehand.contracts import conversation, events, limits, outcome, plan, report, request, steering, waits
from chargehand.contracts.authority import Authority as Authority
from chargehand.contracts.authority import Capability as Capability
from chargehand.contracts.authority import Obligation as Obligation
from chargehand.contracts.authority import PolicyMode as PolicyMode
from chargehand.contracts.authority import ToolRule as ToolRule
from chargehand.contracts.authority import Watched as Watched
from chargehand.contracts.base import Contract as Contract
from chargehand.contracts.base import Dollars as Dollars
from chargehand.contracts.base import JsonSchema as JsonSchema
from chargehand.contracts.base import Message as Message
from chargehand.contracts.base import TypedByPeople as TypedByPeople
from chargehand.contracts.base import left_out as left_out
from chargehand.contracts.base import round_up_dollars as round_up_dollars
from chargehand.contracts.base import without_control_characters as without_control_characters
from chargehand.contracts.conversation import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
from chargehand.contracts.events import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
from chargehand.contracts.events import LiveText as LiveText
from chargehand.contracts.events import Recorded as Recorded
from chargehand.contracts.limits import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
from chargehand.contracts.limits import Effort as Effort
from chargehand.contracts.outcome import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
from chargehand.contracts.outcome import Confidence as Confidence
from chargehand.contracts.outcome import FailureReason as FailureReason
from chargehand.contracts.outcome import Severity as Severity
from chargehand.contracts.outcome import Verification as Verification
from chargehand.contracts.plan import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
from chargehand.contracts.plan import Strategy as Strategy
from chargehand.contracts.report import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
from chargehand.contracts.report import CrewVersion as CrewVersion
from chargehand.contracts.request import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
from chargehand.contracts.request import Delegation as Delegation
from chargehand.contracts.request import LiveTexts as LiveTexts
from chargehand.contracts.steering import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
from chargehand.contracts.waits import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
from chargehand.contracts.waits import Decider as Decider
from chargehand.contracts.waits import WaitKind as WaitKind
from chargehand.state_words import SessionState as SessionState
from chargehand.state_words import StopReason as StopReason
from chargehand.state_words import SubtaskState as SubtaskState

__all__: list[str] = []
__all__ += conversation.__all__
__all__ += events.__all__
__all__ += outcome.__all__
__all__ += plan.__all__
__all__ += report.__all__
__all__ += limits.__all__
__all__ += request.__all__
__all__ += steering.__all__
__all__ += waits.__all__
