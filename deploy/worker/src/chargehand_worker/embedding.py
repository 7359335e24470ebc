"""A worker in your own process; users import it from `chargehand.worker`.

Every setting of the worker program can be passed: `CHARGEHAND_SEARCH=ddgs` is `search="ddgs"`. Other settings are
taken from the environment, as by the program.
"""

from collections.abc import Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from difflib import get_close_matches
from os import PathLike
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError
from temporalio.client import Client

from chargehand.errors import ChargehandError, UnusableSettings
from chargehand.plugins import add_modules
from worker.process import serving
from worker.program import main
from worker.settings import Settings, describe_unusable, read_settings

__all__ = ["Worker", "run"]


class Worker:
    """Polls the task queue of sessions while it is entered; when it is left, in-flight calls finish first.

    Your client can have any data converter and interceptors; the worker uses a copy of it with Chargehand's converter.
    The worker also runs in your event loop: do not block it. Signals, logging and the process's umask remain yours.
    """

    def __init__(
        self,
        client: Client,
        *,
        crews: str | PathLike[str] | None = None,
        plugins: Sequence[str] = (),
        task_queue: str | None = None,
        state_dir: str | PathLike[str] | None = None,
        **settings: object,
    ) -> None:
        """Check the settings; nothing is started.

        Args:
            client: the server and namespace to work for.
            crews: a folder of crew files; they add to the crews that come with Chargehand.
            plugins: names of modules that are plug-ins, with tools of your own or more.
            task_queue: where sessions are started; `chargehand` by default.
            state_dir: where documents, indexes and files of agents are kept.
            settings: any other setting of the worker, by its name in lower case without `CHARGEHAND_`.

        Raises:
            UnusableSettings: a setting is unknown or has no valid value; when it is entered, a crew, a tool or a
                backend cannot be used.
        """
        self._client = client
        self._settings = _choose(plugins, crews=crews, task_queue=task_queue, state_dir=state_dir, **settings)
        self._running: AbstractAsyncContextManager[object] | None = None

    async def __aenter__(self) -> Self:
        running = serving(self._client, self._settings)
        with _usable():
            await running.__aenter__()
        self._running = running
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running, self._running = self._running, None
        assert running, "it was entered"
        await running.__aexit__(None, None, None)


def run(
    *,
    crews: str | PathLike[str] | None = None,
    plugins: Sequence[str] = (),
    task_queue: str | None = None,
    state_dir: str | PathLike[str] | None = None,
    **settings: object,
) -> int:
    """Run the worker program in this process until SIGTERM or SIGINT, and return its exit code: 0, or 2 with a message.

    It connects according to Temporal's own settings (`TEMPORAL_ADDRESS`, profiles), and waits for a server that is not
    up. Parameters and errors are those of `Worker`.
    """
    return main([], _choose(plugins, crews=crews, task_queue=task_queue, state_dir=state_dir, **settings))


def _choose(plugins: Sequence[str], **settings: object) -> Settings:
    """Register plug-ins, and read the settings from the arguments and the environment."""
    with _usable():
        add_modules(plugins)
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    with _usable():
        read = read_settings(**given)
    known = type(read).model_fields
    for name in given.keys() - known.keys():
        similar = get_close_matches(name, known, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise UnusableSettings(f"{name} is not a setting of the worker{hint}")
    return read


@contextmanager
def _usable() -> Generator[None]:
    try:
        yield
    except ValidationError as error:
        raise UnusableSettings(describe_unusable(error)) from error
    except ChargehandError as error:
        raise UnusableSettings(str(error)) from error
