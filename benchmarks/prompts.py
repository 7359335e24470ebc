"""What each turn of the main job sends, by part, as the vendor's SDK puts it on the wire."""

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks import processes
from benchmarks.jobs import own_runs, until_polled
from benchmarks.played.billing import tokens_of
from benchmarks.scripted import Shape, said
from benchmarks.tables import Row
from chargehand.client import Chargehand
from tests.scripted_provider import ScriptedProvider, ScriptedRequest

_QUEUE: Final = "prompts"
_ALL: Final = "the job"


async def prompts() -> tuple[Sequence[Row], Sequence[str]]:
    """Run the job once, and split its requests into parts."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name, processes.server(Path(name)) as server:
        async with ScriptedProvider(said) as provider:
            with processes.worker("own", server.address, _QUEUE, Path(name), provider.base_url) as worker:
                await until_polled(worker)
                await own_runs(await Chargehand.connect(server.address, task_queue=_QUEUE))(Shape())
            return _rows(provider.requests), ["a token is four ASCII characters, or one other"]


def _rows(requests: Sequence[ScriptedRequest]) -> Sequence[Row]:
    parts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for request in requests:
        for turn in (_turn(request), _ALL):
            parts[turn].update(turns=1, **parts_of(request))
    return [{"": turn, **counted, "all": counted.total() - counted["turns"]} for turn, counted in parts.items()]


def _turn(request: ScriptedRequest) -> str:
    after = ", after a tool" if request.rounds else ""
    return f"{request.answer.removesuffix('Answer').lower()}{after}"


def parts_of(request: ScriptedRequest) -> Mapping[str, int]:
    """Count the tokens of each part of a request to OpenAI."""
    body = request.body
    first, *rest = body["input"]
    return {
        "system": tokens_of(body["instructions"]),
        "tools": tokens_of(_text(body.get("tools", []))),
        "answer's schema": tokens_of(_text(body["text"]["format"])),
        "task": tokens_of(first["content"]),
        "conversation": tokens_of(_text(rest)) if rest else 0,
    }


def _text(part: object) -> str:
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"))
