"""Names of the package that others depend on."""

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
