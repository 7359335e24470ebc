"""The same lines over the wire: `python -m benchmarks.wire_script` prints the address that it answers at."""

import asyncio
import re

from benchmarks.scripted import CONTENT, TURN, Shape, answer, plan, report
from tests.scripted_provider import ScriptedProvider, ScriptedReply, ScriptedRequest, ToolUse, calling, saying


def respond(request: ScriptedRequest) -> ScriptedReply:
    """Answer one request after the time that a turn takes."""
    return said(request).after(TURN.total_seconds())


def said(request: ScriptedRequest) -> ScriptedReply:
    """Answer one request at once."""
    match request.answer:
        case "PlanAnswer":
            return saying(plan(Shape.told_in(request.text)))
        case "SynthesisAnswer":
            return saying(report(Shape.told_in(request.text)))
        case "WorkAnswer":
            return _work(request)
        case _:  # the bare workflow asks for plain text
            return saying(CONTENT)


def _work(request: ScriptedRequest) -> ScriptedReply:
    if request.tools and request.rounds < Shape.told_in(request.text).rounds:
        return calling(ToolUse(request.tools[0], {"query": f"late departures {request.rounds + 1}"}))
    read = re.search(r"\[(log-[^\]]+)\]", request.text)
    return saying(answer(read[1] if read else ""))


async def _serve() -> None:
    async with ScriptedProvider(respond) as server:
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
