"""A worker in a process of your own. Needs the extra `worker`.

    async with Worker(client, crews="crews", plugins=["my_tools"]):
        session = await Chargehand(client).start(SessionRequest(goal="…", crew="my-crew"))
        print((await session.result()).answer)

Every setting of the worker program can be given: `CHARGEHAND_SEARCH=ddgs` is `search="ddgs"`. What is not given is
taken from the environment, as the program does.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from os import PathLike
from types import ModuleType, TracebackType
from typing import Final, Self

from temporalio.client import Client

from chargehand.errors import MissingExtra, UnusableSettings

__all__ = ["MissingExtra", "UnusableSettings", "Worker", "run"]

_IMPLEMENTATION: Final = "chargehand_worker"


class Worker:
    """Polls the task queue of sessions while it is entered; leaving it lets in-flight calls finish for 30 seconds.

    Your client may have any data converter and interceptors; the worker uses a copy of it with Chargehand's converter.
    The event loop belongs to the worker as well: do not block it. Signals, logging and the process's umask are yours.
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
            MissingExtra: the worker is not installed.
            UnusableSettings: a setting is unknown or has no valid value; when it is entered, a crew, a tool or a
                backend cannot be used.
        """
        given = _given(crews, task_queue=task_queue, state_dir=state_dir, **settings)
        implementation = _load()
        self._client = client
        self._settings: object = implementation.choose_settings(given, plugins)
        self._open = implementation.embedded
        self._running: AbstractAsyncContextManager[None] | None = None

    async def __aenter__(self) -> Self:
        running = self._open(self._client, self._settings)
        await running.__aenter__()
        self._running = running
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running, self._running = self._running, None
        assert running, "it was entered"
        await running.__aexit__(kind, error, trace)


def run(
    *,
    crews: str | PathLike[str] | None = None,
    plugins: Sequence[str] = (),
    task_queue: str | None = None,
    state_dir: str | PathLike[str] | None = None,
    **settings: object,
) -> int:
    """Run the worker program in this process until SIGTERM or SIGINT, and return its exit code: 0, or 2 with a message.

    It connects as Temporal's own settings say (`TEMPORAL_ADDRESS`, profiles), and waits for a server that is not up.
    Parameters and errors are those of `Worker`.
    """
    given = _given(crews, task_queue=task_queue, state_dir=state_dir, **settings)
    code: int = _load().run(given, plugins)
    return code


def _given(crews: str | PathLike[str] | None, **settings: object) -> dict[str, object]:
    given = settings | {"crews": crews}
    return {name: value for name, value in given.items() if value is not None}


def _load() -> ModuleType:
    try:
        return import_module(f"{_IMPLEMENTATION}.embedding")
    except ModuleNotFoundError as error:
        if error.name != _IMPLEMENTATION:
            raise
        raise MissingExtra("The worker", "worker") from None
