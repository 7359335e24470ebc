"""Run the scripted provider in a process of its own: `python -m tests.scripted_provider --port 0`.

The first line on standard output is its address. `GET /requests` tells what it was asked, as JSON.
"""

import argparse
import asyncio
import importlib
import signal

from tests.scripted_provider.exchange import Respond
from tests.scripted_provider.server import ScriptedProvider
from tests.scripted_provider.session import canned_session


def _script(named: str) -> Respond:
    module, _, function = named.partition(":")
    return getattr(importlib.import_module(module), function)


async def _serve(respond: Respond, port: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with ScriptedProvider(respond, port=port) as server:
        print(server.base_url, flush=True)
        await stopped.wait()


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.scripted_provider", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--script", default="", help="module:function to answer with; a canned session by default")
    parser.add_argument("--delay", type=float, default=0.0, help="canned session: seconds that a turn takes")
    parser.add_argument("--subtasks", type=int, default=5, help="canned session: subtasks of the plan")
    parser.add_argument("--rounds", type=int, default=1, help="canned session: tool rounds of a subtask")
    chosen = parser.parse_args()
    canned = canned_session(subtasks=chosen.subtasks, rounds=chosen.rounds, delay=chosen.delay)
    asyncio.run(_serve(_script(chosen.script) if chosen.script else canned, chosen.port))


if __name__ == "__main__":
    main()
