"""Readers of bytes from outside: each target raises on anything but the refusals that its callers expect."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError

from activities.contracts import cards, crew, rounds, session, tool
from activities.documents.formats.registry import format_of
from activities.documents.parsed import NotADocumentError, Parsed, Source, UnreadableError
from activities.documents.passages import cut
from activities.http.addresses import reason_to_refuse
from activities.models.anthropic_messages import MessageFold
from activities.models.failures import ReportedError, UnreadableReply
from activities.models.openai_chat import ChatFold
from activities.models.openai_responses import ResponseFold
from activities.models.streaming import Fold, Patience, receive
from activities.processes.limits import Allowance
from activities.tools.pages.leak_check import carries
from activities.turn_kinds import protocol
from chargehand import contracts as public
from chargehand.converter import data_converter
from chargehand_plugins.webhooks import activity as webhook

_CONVERTER: Final = data_converter().payload_converter
_TYPED: Final = (public.SessionRequest, public.Limits, public.PlanDecision, public.RaisedLimits, public.Answer)
_PATIENCE: Final = Patience(first_seconds=60, gap_seconds=60)


def _contracts() -> Iterator[type[BaseModel]]:
    for module in (public, cards, crew, protocol, rounds, session, tool, webhook):
        for name in sorted(vars(module)):
            kind = getattr(module, name)
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind.model_fields:
                yield kind


CONTRACTS: Final = tuple(dict.fromkeys(_contracts()))


def _read_as(data: bytes, kind: type[Any]) -> None:
    """Read a payload: it is refused for good as bad input, or reads the same once written again."""
    payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
    try:
        [value] = _CONVERTER.from_payloads([payload], [kind])
    except ApplicationError as error:
        assert (error.type, error.non_retryable, len(str(error)) < 20_000) == ("InvalidInput", True, True)  # noqa: PT017  # a success is fine too
        return
    [again] = _CONVERTER.from_payloads(_CONVERTER.to_payloads([value]), [kind])
    assert again == value


def read_request(data: bytes) -> None:
    for kind in _TYPED:
        _read_as(data, kind)


def read_contract(data: bytes) -> None:
    """Read any contract; the first byte chooses which."""
    if data:
        _read_as(data[1:], CONTRACTS[data[0] % len(CONTRACTS)])


def parse_document(name: str, data: bytes) -> None:
    """Parse a document of this name; check that its blocks and parts are on lines of it and can be stored."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        module = import_module(f"activities.documents.formats.{format_of(name).module}")
        with suppress(UnreadableError, NotADocumentError):
            _check(module.parse(Source(name, path, Path(folder) / "table"), _Unlimited()))


class _Unlimited(Allowance):
    def __init__(self) -> None:
        pass

    def note(self, pieces: int = 1) -> None:
        pass


def _check(parsed: Parsed) -> None:
    assert parsed.units >= 0
    for span in (*parsed.blocks, *parsed.parts, *cut(parsed.blocks, parsed.unit)):
        assert 1 <= span.first <= span.last
        span.text.encode("utf-8", "strict")


@dataclass
class _Reply:
    chunks: tuple[bytes, ...]
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})

    @property
    async def stream(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk


def fold_stream(fold: Callable[[], Fold], data: bytes) -> None:
    """Assemble a stream; check that it reads the same at once, by lines and by bytes."""

    async def assembled(*chunks: bytes) -> object:
        @asynccontextmanager
        async def request() -> AsyncGenerator[_Reply]:
            yield _Reply(chunks)

        try:
            return await receive(request(), fold(), patience=_PATIENCE, whole_seconds=60, on_event=lambda _: None)
        except (UnreadableReply, ReportedError) as refusal:
            return type(refusal), str(refusal)

    async def compare() -> None:
        whole = await assembled(data)
        assert whole == await assembled(*data.splitlines(keepends=True))
        assert whole == await assembled(*(data[at : at + 1] for at in range(len(data))))

    asyncio.run(compare())


def check_address(data: bytes) -> None:
    """Judge an address or a URL, as the guards do before anything is opened."""
    text = data.decode("latin-1")
    assert reason_to_refuse(text) is None or reason_to_refuse(text)
    carries(text, ["the number is 4711 0815"], ["nothing"])


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "requests": read_request,
    "contracts": read_contract,
    **{suffix: partial(parse_document, f"document.{suffix}") for suffix in ("md", "txt", "py", "html", "csv")},
    "anthropic": partial(fold_stream, MessageFold),
    "responses": partial(fold_stream, ResponseFold),
    "chat": partial(fold_stream, ChatFold),
    "addresses": check_address,
}
