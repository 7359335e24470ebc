"""What plug-ins return in workflows: of a wrong type, the session fails, and its failure names plug-in and hook."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from temporalio.exceptions import ApplicationError

from chargehand.contracts import SessionRequest
from chargehand.errors import SessionFailed
from chargehand.plugins import SETTING, Hook, Registry, installed
from chargehand.wire import ErrorType
from tests.scripted_model import Script, answer, topics
from tests.workflows.conftest import OpenEnvironment
from workflows.rules.output_figures import claims_without_source

_returned: dict[Hook, object] = {}
_REFUSAL: Final = f"The plug-in '{__name__}': its hook {{}} returned what cannot be used: "


def register(registry: Registry) -> None:
    """Add the hook of a test, as a plug-in does."""
    for hook, returned in _returned.items():
        is_plain = returned == "plain" or hook in {Hook.UNKNOWN_FIGURES, Hook.DISAGREEMENTS}
        registry.hook(hook, f"{__name__}:{'plain' if is_plain else 'awaited'}_{hook}")


def _functions(hook: Hook) -> Iterator[tuple[str, Callable[..., Any]]]:
    async def awaited(*_: object) -> object:
        return _returned[hook]

    yield f"plain_{hook}", lambda *_: _returned[hook]
    yield f"awaited_{hook}", awaited


globals().update(pair for hook in Hook for pair in _functions(hook))


@pytest.fixture
def returning(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Hook, object], None]]:
    def install(hook: Hook, returned: object) -> None:
        monkeypatch.setattr(f"{__name__}._returned", {hook: returned})
        monkeypatch.setenv(SETTING, __name__)
        installed.cache_clear()

    yield install
    installed.cache_clear()


WRONG: Final[dict[Hook, tuple[object, ...]]] = {
    Hook.ROUTE: (7, "plain", {"subtasks": ()}),
    Hook.BACKUP: (None, 7, "plain", ("T1", None), (None, None)),
    Hook.REPORT: (7, "plain"),
    Hook.DISAGREEMENTS: (None, 7, ("They differ.",)),
}


@pytest.mark.parametrize(("hook", "wrong"), [(hook, wrong) for hook, each in WRONG.items() for wrong in each])
async def test_a_result_of_a_wrong_type_ends_the_session(
    environment: OpenEnvironment, returning: Callable[[Hook, object], None], hook: Hook, wrong: object
) -> None:
    """It would otherwise be a traceback in a workflow task that is tried for ever."""
    returning(hook, wrong)
    async with environment(Script().plan(*topics(2)).work("", answer("Known."))) as opened:
        with pytest.raises(SessionFailed) as failed:
            await opened.chargehand.run(SessionRequest(goal="What is known?", review="always"))

    assert (failed.value.error_type, str(failed.value)[: len(_REFUSAL.format(hook))]) == (
        ErrorType.INTERNAL,
        _REFUSAL.format(hook),
    )


@pytest.mark.parametrize("wrong", [None, ["output.a"], {"output.a": 7}])
def test_figures_of_a_wrong_type_are_refused(returning: Callable[[Hook, object], None], wrong: object) -> None:
    """Those of an output, which pure functions compare."""
    returning(Hook.UNKNOWN_FIGURES, wrong)

    with pytest.raises(ApplicationError, match=_REFUSAL.format(Hook.UNKNOWN_FIGURES)):
        claims_without_source({"a": 5}, ["It is 6."], ())
