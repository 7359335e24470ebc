"""Credentials of the calling user in a tool call: opened for that call, and redacted from all its results.

Opened values are also redacted from logs and tapes, as long as the process knows them.
"""

import base64
import json
import traceback
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote, quote_plus

from pydantic import JsonValue
from temporalio.exceptions import ApplicationError

from activities.contracts.rounds import ToolRequest
from activities.contracts.tool import LookUp, LookUpResult, Tool, ToolAnswer, ToolContext, WrappedTool, look_up_of
from activities.single_flight import Newest
from chargehand.contracts import SessionRequest
from chargehand.credentials import SHORTEST, open_credential
from chargehand.errors import ChargehandError
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import ProtectionError
from chargehand.strict_json import map_texts

_R = TypeVar("_R")

_known: Final = Newest[str, tuple[tuple[str, str], ...]](1_000)
"""Replacements for decrypted values, in each of their encodings."""


class CredentialMissing(ChargehandError):  # noqa: N818  # reads as a statement of fact
    """A tool needs a credential that the request lacks."""


def hide(text: str) -> str:
    """Redact all credentials known to this process, in any encoding."""
    for forms in _known.values():
        for form, shown in forms:
            text = text.replace(form, shown)
    return text


def keep_hidden(value: str, shown: str = "[credential]") -> None:
    """Register a value for `hide`, unless it is too short to be distinguished from ordinary words."""
    _known.pop(value, None)
    if len(value) >= SHORTEST:
        _known[value] = tuple((form, shown) for form in _forms(value))


def credential_problems(keys: Encryption | None, request: SessionRequest) -> list[str]:
    """List the credentials of a request that cannot be opened here."""
    problems: list[str] = []
    for name, sealed in request.credentials.items():
        try:
            open_credential(keys, request.tenant, name, sealed)
        except ProtectionError as error:
            problems.append(f"credentials.{name}: {error}")
    return problems


def open_for(tool: Tool, request: ToolRequest, keys: Encryption | None) -> dict[str, str]:
    """Open the credentials that a tool requests.

    Raises:
        CredentialMissing: the request lacks it.
        ProtectionError: it cannot be opened.
    """
    opened: dict[str, str] = {}
    for name in tool.spec.credentials:
        if name not in request.credentials:
            raise CredentialMissing(
                f"The tool '{tool.spec.name}' needs the user's credential '{name}', and the request does not bring it. "
                "Go another way, or name the gap."
            )
        opened[name] = value = open_credential(keys, request.tenant, name, request.credentials[name])
        keep_hidden(value, f"[credential {name}]")
    return opened


class HidesCredentials(WrappedTool):
    """Wraps a tool to redact its credentials from answers and errors."""

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        return _without(await _hiding(self.tool.use(arguments, context)))

    @property
    def look_up(self) -> LookUp | None:
        look_up = look_up_of(self.tool)

        async def hidden(arguments: Mapping[str, JsonValue], context: ToolContext) -> LookUpResult:
            result = await _hiding(look_up(arguments, context)) if look_up else None
            return _without(result) if isinstance(result, ToolAnswer) else result

        return hidden if look_up else None


async def _hiding(work: Awaitable[_R]) -> _R:
    try:
        return await work
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if hide(text) == text:
            raise
        known = error if isinstance(error, ApplicationError) else None
        raise ApplicationError(
            hide(known.message if known else str(error)),
            type=known.type if known else type(error).__name__,
            non_retryable=bool(known and known.non_retryable),
            next_retry_delay=known.next_retry_delay if known else None,
        ) from None


def _without(answer: ToolAnswer) -> ToolAnswer:
    return type(answer).model_validate(map_texts(answer.model_dump(mode="json"), hide, hide))


def _forms(value: str) -> Sequence[str]:
    """List the encodings of a value, longest first: plain, JSON, URL, base64."""
    data = value.encode()
    forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    forms |= {quote(value), quote(value, safe=""), quote_plus(value), data.hex()}
    for before in range(3):  # as in Basic authentication, after a user name
        encoded = base64.b64encode(bytes(before) + data).decode()
        # Without the characters that also encode neighbouring bytes.
        part = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        forms |= {part, part.replace("+", "-").replace("/", "_")}
    return sorted(forms, key=len, reverse=True)
