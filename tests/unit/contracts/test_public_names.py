"""Names that others depend on: those of the package, and those on the wire."""

import subprocess
import sys

import chargehand
from chargehand import contracts, errors
from chargehand.api import __all__ as public_names


def test_the_package_exports_its_public_names() -> None:
    client = {"Chargehand", "Conversation", "Session", "SessionFilters", "SessionSummary", "ErrorType", "TASK_QUEUE"}
    client |= {"data_converter"}
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    names = list(public_names)

    assert set(names) == client | raised | set(contracts.__all__)
    assert all(getattr(chargehand, name) is not None for name in names)
    assert set(names) <= set(dir(chargehand))


def test_importing_a_name_loads_only_what_it_needs() -> None:
    errors = "import chargehand.wire, chargehand.payloads.errors; from chargehand import ErrorType, NotReachable"
    cases: list[tuple[str, list[str]]] = [(errors, []), ("from chargehand import Report", ["pydantic"])]
    for statement, expected in cases:
        program = f"import sys; {statement}; print(sorted({{'temporalio', 'pydantic'}} & set(sys.modules)))"
        loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        assert loaded == f"{expected}\n"
