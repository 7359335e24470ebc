"""Names that others depend on: those of the package, and those that travel."""

import importlib
import inspect
import subprocess
import sys
from typing import Any, get_type_hints

import pytest
from temporalio import workflow

import chargehand
from chargehand import wire
from chargehand.interface import Supervisor
from workflows.supervisor import SupervisorWorkflow

# fmt: off
PUBLIC = [
    "TASK_QUEUE", "Answer", "Artifact", "Chargehand", "ChargehandError", "Contradiction", "ErrorType", "Escalation",
    "Failure", "Finding", "Issue", "LimitUse", "Limits", "NotReachable", "Outcome", "Partial", "Plan", "PlanDecision",
    "Question", "RaisedLimits", "Report", "Session", "SessionCancelled", "SessionEnded", "SessionFailed",
    "SessionNotFound", "SessionRequest", "SessionSummary", "SessionTerminated", "Source", "SpendLine", "Status",
    "Step", "Subtask", "SubtaskRecord", "Success", "Tier", "Tiers", "Timing", "Trace", "Usage", "data_converter",
]
# fmt: on


def test_the_package_exports_what_it_promises() -> None:
    """A public name is added on purpose, and removed never without a major release."""
    assert sorted(chargehand.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_had(name: str) -> None:
    """`from chargehand import …` gives the same object as the module where it is defined, and `dir` shows it."""
    value = getattr(chargehand, name)

    modules = [
        "chargehand.client",
        "chargehand.contracts",
        "chargehand.converter",
        "chargehand.errors",
        "chargehand.wire",
    ]
    homes = [module for module in map(importlib.import_module, modules) if getattr(module, name, None) is not None]
    assert [getattr(module, name) is value for module in homes] == [True] * len(homes)
    assert homes
    assert name in dir(chargehand)


def test_an_unknown_name_is_an_ordinary_mistake() -> None:
    """A name that does not exist is an AttributeError that says so, as with any module."""
    with pytest.raises(AttributeError, match="module 'chargehand' has no attribute 'Chargehound'"):
        _ = chargehand.Chargehound  # type: ignore[attr-defined]  # that is the point


@pytest.mark.parametrize("module", ["chargehand", "chargehand.wire", "chargehand.errors"])
def test_names_cost_nothing_until_used(module: str) -> None:
    """Neither Temporal nor pydantic is loaded by importing the package, its wire names or its errors."""
    program = f"import sys, {module}; print(sorted({{'temporalio', 'pydantic', 'asyncio'}} & set(sys.modules)))"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded == "[]\n"


def test_contracts_do_without_temporal() -> None:
    """Whoever only reads and writes contracts loads pydantic and nothing else of ours that is heavy."""
    program = "import sys; from chargehand import Report; print('temporalio' in sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded == "False\n"


def test_wire_names_stay() -> None:
    """Names in histories, in other people's commands and in their code are what they were when they were released."""
    assert wire.TASK_QUEUE == "chargehand"
    assert {kind.__name__: [member.value for member in kind] for kind in _enumerations()} == {
        "WorkflowType": ["Supervisor", "Subtask"],
        "ActivityType": ["open_session", "take_turn", "use_tool", "await_duplicate"],
        "QueryName": ["status", "plan"],
        "UpdateName": ["decide_plan", "raise_limits", "finish_now", "answer"],
        "SignalName": ["request_grant", "receive_grant"],
        "ErrorType": [
            "InvalidInput",
            "InvalidPlan",
            "PlanRejected",
            "NotStandalone",
            "LimitTooSmall",
            "ReserveTooSmall",
            "ProviderUnavailable",
            "ProviderRefused",
            "RateLimited",
            "AttemptLost",
            "ConversationMissing",
            "OutcomeUnknown",
            "ToolUnavailable",
            "Internal",
            "PayloadTooLarge",
        ],
    }


def _enumerations() -> list[Any]:
    return [wire.WorkflowType, wire.ActivityType, wire.QueryName, wire.UpdateName, wire.SignalName, wire.ErrorType]


def _definition(kind: type) -> dict[str, object]:
    """What Temporal makes of a workflow class, with the types that each handler takes and gives."""
    found = workflow._Definition.must_from_class(kind)
    return {
        "name": found.name,
        "run": _types(getattr(found, "run_fn")),  # noqa: B009  # its type says too little
        "queries": {name: _types(query.fn) for name, query in found.queries.items()},
        "updates": {name: _types(update.fn) for name, update in found.updates.items()},
    }


def _types(function: Any) -> dict[str, object]:
    hints = get_type_hints(function)
    return {
        "takes": [hints[name] for name in list(inspect.signature(function).parameters)[1:]],
        "gives": hints["return"],
    }


def test_the_interface_is_what_is_registered() -> None:
    """Callers see the same names and types that the worker registers: workflow, queries, updates."""
    assert _definition(Supervisor) == _definition(SupervisorWorkflow)
