"""The types of the TypeScript example, held to the contracts."""

import re
from pathlib import Path

from chargehand import contracts
from chargehand.contracts import Contract, TypedByPeople

_FILE = Path(__file__).parents[3] / "examples" / "typescript" / "src" / "messages.mts"
_INTERFACES: dict[str, str] = dict(
    re.findall(r"export interface (\w+) \{\n(.*?)\n\}", _FILE.read_text(encoding="utf-8"), re.DOTALL)
)


def test_the_types_are_those_of_the_contracts() -> None:
    """Each field is one of the message's, and of what is sent, those are optional that need not be there."""
    for name in sorted(_INTERFACES.keys() - {"Updates"}):  # which is no contract, but the table of messages
        fields: dict[str, str] = dict(re.findall(r"^  (\w+)(\??): ", _INTERFACES[name], re.MULTILINE))
        message = getattr(contracts, name)
        assert issubclass(message, Contract)
        assert fields.keys() <= message.model_fields.keys()
        if issubclass(message, TypedByPeople):
            optional = {field for field in fields if not message.model_fields[field].is_required()}
            assert {field for field, mark in fields.items() if mark} == optional
