"""A console that is served over real HTTP, for a worker with a scripted model."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from httpx2 import AsyncClient
from temporalio.client import Client

from chargehand_plugins.console.backend import Backend, crew_choices
from chargehand_plugins.console.server import RunningConsole, serving
from chargehand_plugins.console.settings import ConsoleSettings
from tests.environment import SessionEnvironment, open_environment
from tests.scripted_model import Respond

TOKEN = "test-token-of-the-console"
DECISION_KEY = "a key of the console of tests"


@dataclass(frozen=True)
class OpenConsole:
    """A console and its worker."""

    running: RunningConsole
    environment: SessionEnvironment
    api: AsyncClient
    """Sends the token."""
    folder: Path

    @asynccontextmanager
    async def browser(self, **options: Any) -> AsyncGenerator[AsyncClient]:
        """Open a signed-in browser that sends the `Origin` header, as the forms on its pages do."""
        url = self.running.url
        async with AsyncClient(base_url=url, headers={"Origin": url}, timeout=90, trust_env=False, **options) as opened:
            assert (await opened.get(self.running.sign_in_link())).status_code == 200
            yield opened


@asynccontextmanager
async def open_console(
    client: Client,
    folder: Path,
    respond: Respond,
    *,
    tenant: str | None = None,
    at_once: Sequence[str] = (),
    acting: Sequence[str] = (),
    own_crews: Sequence[Path] = (),
    **settings: float,
) -> AsyncGenerator[OpenConsole]:
    """Serve a console on a free port."""
    async with open_environment(
        client, folder, respond, at_once=at_once, acting=acting, own_crews=tuple(own_crews)
    ) as environment:
        backend = Backend(
            lambda: environment.chargehand, str(folder / "artifacts"), crews=crew_choices([]), tenant=tenant
        )
        async with (
            serving(backend, ConsoleSettings(TOKEN, DECISION_KEY, port=0, **settings)) as running,  # pyright: ignore[reportArgumentType]  # numbers only
            AsyncClient(
                base_url=running.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60, trust_env=False
            ) as api,
        ):
            yield OpenConsole(running, environment, api, folder)


async def events_of(client: AsyncClient, path: str, **headers: str) -> AsyncIterator[dict[str, str]]:
    """Read an event stream; yield the fields of each event."""
    async with client.stream("GET", path, headers=headers) as answered:
        assert answered.headers["content-type"].startswith("text/event-stream"), answered.status_code
        event: dict[str, str] = {}
        async for line in answered.aiter_lines():
            name, _, value = line.partition(": ")
            if line:
                event[name] = event.get(name, "") + value
                continue
            if "data" in event:
                yield event
            event = {}


def bare_headings(page: str) -> list[str]:
    """List card headings with no text before the next heading or the end of the card."""
    shown = re.sub(
        r"<section [^>]*hidden>.*?</section>|<details data-open=\"timeline.*?</details>", "", page, flags=re.DOTALL
    )
    below = re.findall(r"<h2>(.*?)</h2>(.*?)(?=<h2>|</section>)", shown, re.DOTALL)
    return [heading for heading, text in below if not re.sub(r"<[^>]*>", "", text).strip()]
