"""Chargehand: a session on workers that run elsewhere."""

import os

from benchmarks.peers.programs.job import GOAL, serve
from chargehand import Chargehand, Limits, SessionRequest


async def run(job: str, cap: int | None) -> str:
    chargehand = await Chargehand.connect(task_queue="peers")
    limits = Limits(max_turns=cap) if cap else Limits()
    report = await chargehand.run(SessionRequest(goal=GOAL, limits=limits), session_id=job)
    return report.answer


if __name__ == "__main__":
    serve(run)
    os._exit(0)  # see benchmarks.__main__
