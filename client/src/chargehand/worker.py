"""A worker in your own process: `Worker` and `run` of the package `chargehand-worker`, the extra `worker`.

    async with Worker(client, crews="crews", plugins=["my_tools"]):
        session = await Chargehand(client).start(SessionRequest(goal="…", crew="my-crew"))
        print((await session.result()).answer)

It polls while the context is entered.
"""

from importlib import import_module
from typing import Final

from chargehand.errors import MissingExtra

_IMPLEMENTATION: Final = "chargehand_worker"


def __getattr__(name: str) -> object:
    """Load the worker on first use; without its package, explain what to install."""
    if name not in {"Worker", "run"}:
        raise AttributeError(name)
    try:
        embedding = import_module(f"{_IMPLEMENTATION}.embedding")
    except ModuleNotFoundError as error:
        if error.name != _IMPLEMENTATION:
            raise
        raise MissingExtra("The worker", "worker") from None
    return getattr(embedding, name)
