"""Notifications of pending decisions, even if a worker is killed then or the receiver is down."""

import asyncio
import json
import time
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Final

from chaos.harness import Harness, Outcome, open_harness, script, until
from chaos.kills import spread
from chaos.result import Demand, Result, Scale
from tests.loopback_http import LoopbackHandler, serve_http

_BAR: Final = 3.0
"""Maximum seconds from the wait, or from the receiver's return, to the received message."""
_AWAY: Final = 60.0
_DURING: Final = "while-away"


class _Receiver:
    """A webhook receiver that can be down."""

    def __init__(self) -> None:
        self.is_away = False
        self.told: dict[str, tuple[float, float]] = {}
        """When each session began to wait, and when a message about it was first accepted."""
        receiver = self

        class Handler(LoopbackHandler):
            def reply(self) -> None:
                body = json.loads(self.body())
                if not receiver.is_away and body["type"] == "wait.began":
                    since = datetime.fromisoformat(body["data"]["wait"]["since"]).timestamp()
                    receiver.told.setdefault(body["data"]["session"], (since, time.time()))
                self.answer(503 if receiver.is_away else 200)

        self.handler = Handler


async def notices(scale: Scale, random: Random, folder: Path) -> Result:
    """Kill one of two workers when a session begins to wait; then take the receiver down for a minute."""
    repetitions = {"short": 1, "full": 10, "nightly": 100}[scale]
    began = time.monotonic()
    receiver = _Receiver()
    with serve_http(receiver.handler) as url:
        async with open_harness(folder, script(0.02)) as harness:
            hosts = json.dumps([url.removeprefix("http://")])
            workers = [
                await harness.worker(CHARGEHAND_WEBHOOK_HOSTS=hosts, CHARGEHAND_WEBHOOK_SECRET="x" * 24)
                for _ in range(2)
            ]
            asked = {"approval": "plan", "webhook": f"{url}/hook"}
            running: list[asyncio.Task[Outcome]] = []

            async def told(name: str) -> None:
                await until(lambda: name in receiver.told, "the message", 90)
                await harness.chargehand.session(name).approve()

            for number in range(repetitions):
                running.append(asyncio.create_task(harness.session(f"wait-{number}", 180, **asked)))
                await until(lambda before=number: _plans(harness) > before, "a plan")
                await asyncio.sleep(random.uniform(0, 0.12))
                harness.fault()
                lost = random.choice(workers)
                await lost.restart()
                await told(f"wait-{number}")
                await harness.polled(lost)
                await running[-1]
            receiver.is_away = True
            running.append(asyncio.create_task(harness.session(_DURING, 180, **asked)))
            harness.fault()
            await asyncio.sleep(_AWAY)
            receiver.is_away, back_at = False, time.time()
            await told(_DURING)
            outcomes = await asyncio.gather(*running)
            result = harness.judge(
                "Decisions that wait",
                "SIGKILL of one of two workers as a session starts to wait for a person; "
                f"receiver away for {_AWAY:.0f} s",
                outcomes,
                began,
                Demand(faults=repetitions + 1, successes=repetitions + 1),
            )
    waited = [at - since for name, (since, at) in receiver.told.items() if name != _DURING]
    after = receiver.told[_DURING][1] - back_at
    result.figures = {"told after, s": spread(waited), "after its return, s": f"{after:.1f}"}
    result.require(max(*waited, after) < _BAR, f"people were told later than after {_BAR:.0f} s")
    return result


def _plans(harness: Harness) -> int:
    return sum(each.request.answer == "PlanAnswer" and bool(each.answered_at) for each in harness.provider.exchanges)
