"""Names that others depend on: those of the package, and those that travel."""

import inspect
import subprocess
import sys
from typing import Any, get_type_hints

import pytest
from temporalio import workflow

import chargehand
from chargehand import contracts, errors
from chargehand.api import __all__ as public_names
from chargehand.contracts import Report, SessionRequest
from chargehand.interface import Supervisor
from workflows.contracts import SupervisorRequest
from workflows.supervisor import SupervisorWorkflow


def test_the_package_exports_its_public_names() -> None:
    """`from chargehand import …` gives every contract, the client, its errors and the converter, and nothing else."""
    client = {"Chargehand", "Session", "SessionSummary", "data_converter", "ErrorType", "TASK_QUEUE"}
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}

    names = list(public_names)

    assert set(names) == client | raised | set(contracts.__all__)
    assert all(getattr(chargehand, name) is not None for name in names)
    assert set(names) <= set(dir(chargehand))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("import chargehand", []),
        ("import chargehand.wire, chargehand.payloads.errors", []),
        ("from chargehand import ChargehandError, ErrorType, NotReachable", []),
        ("from chargehand import Report", ["pydantic"]),
    ],
)
def test_a_name_loads_only_what_it_needs(statement: str, expected: list[str]) -> None:
    """Errors and wire names need neither Temporal nor pydantic, and contracts do not need Temporal."""
    program = f"import sys; {statement}; print(sorted({{'temporalio', 'pydantic'}} & set(sys.modules)))"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded == f"{expected}\n"


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
    """Callers see the same names and types that the worker registers: workflow, queries, updates. What the workflow
    takes beyond a request is for itself."""
    own = {"takes": [SupervisorRequest], "gives": Report}

    assert _definition(Supervisor) | {"run": own} == _definition(SupervisorWorkflow)
    assert issubclass(SupervisorRequest, SessionRequest)
