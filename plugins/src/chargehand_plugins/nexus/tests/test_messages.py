"""Every message of the table is an operation of the Nexus service."""

import nexusrpc
import pytest

from chargehand.messages import MESSAGES, Row
from chargehand_plugins.nexus.service import OneSession, SessionService


@pytest.mark.parametrize("row", MESSAGES.values(), ids=MESSAGES)
def test_nexus_offers_it(row: Row) -> None:
    """The operation of this name takes a session with the row's contract, and returns the same."""
    definition = nexusrpc.get_service_definition(SessionService)
    assert definition
    operation = definition.operation_definitions[row.name]
    message = operation.input_type.model_fields.get("message")

    assert issubclass(operation.input_type, OneSession)
    assert (message.annotation if message else None) is row.takes
    assert operation.output_type == row.returns
