"""Results of plug-ins in workflows: one of a wrong type fails the session, naming plug-in and hook."""

from typing import Any, Final

import pytest
from temporalio.exceptions import ApplicationError

from chargehand import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.errors import SessionFailed
from chargehand.plugins import SETTING, Hook, Registry, installed
from chargehand.wire import ErrorType
from tests.scripted_model import Script, answer, topics
from tests.workflows.conftest import OpenEnvironment
from workflows.rules.output_figures import claims_without_source

_added: dict[str, Any] = {}
WRONG: Final[dict[tuple[Hook, str], tuple[object, ...]]] = {
    (Hook.ROUTE, "awaited"): (7, {"subtasks": ()}),
    (Hook.BACKUP, "awaited"): (None, 7, ("T1", None), (None, None)),
    (Hook.REPORT, "awaited"): (7,),
    **{(hook, "plain"): (None,) for hook in (Hook.ROUTE, Hook.BACKUP, Hook.REPORT)},
    (Hook.DISAGREEMENTS, "plain"): (None, 7, ("They differ.",)),
    (Hook.UNKNOWN_FIGURES, "plain"): (None, ["output.a"], {"output.a": 7}),
}


def register(registry: Registry) -> None:
    """Add the hook of a test, as a plug-in does."""
    registry.hook(_added["hook"], f"{__name__}:{_added['kind']}")


def plain(*_: object) -> object:
    return _added["returned"]


async def awaited(*_: object) -> object:
    return _added["returned"]


async def _run(chargehand: Chargehand) -> None:
    claims_without_source({"a": 5}, ["It is 6."], ())  # as where an output is checked
    await chargehand.run(SessionRequest(goal="What is known?", review="always"))


@pytest.mark.parametrize(("hook", "kind", "wrong"), [(*case, wrong) for case, each in WRONG.items() for wrong in each])
async def test_a_plugin_hook_result_of_the_wrong_type_fails_the_session(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch, hook: Hook, kind: str, wrong: object
) -> None:
    """Otherwise it would raise in a workflow task, which is retried forever."""
    _added.update(hook=hook, kind=kind, returned=wrong)
    monkeypatch.setenv(SETTING, __name__)
    installed.cache_clear()
    try:
        async with environment(Script().plan(*topics(2)).work("", answer("Known."))) as opened:
            with pytest.raises((SessionFailed, ApplicationError)) as failed:
                await _run(opened.chargehand)
    finally:
        installed.cache_clear()

    assert getattr(failed.value, "error_type", ErrorType.INTERNAL) is ErrorType.INTERNAL
    message = str(failed.value).removeprefix(f"{ErrorType.INTERNAL}: ")
    assert message.startswith(f"The plug-in '{__name__}': its hook {hook} returned an unusable value: ")
