"""Run others' conformance suites against this tree: `python -m tests.suites a2a FOLDER`, `mcp` or `mcp-client PROGRAM`.

    a2a: FOLDER is a checkout of https://github.com/a2aproject/a2a-tck (branch `1.0-dev`) with a `.venv` in it.
    mcp, mcp-client: PROGRAM is `conformance` of npm's `@modelcontextprotocol/conformance`, which needs Node 22.

With `--write docs/conformance.md`, the results become the section of that suite.
"""

import argparse
import asyncio
import json
import os
import re
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx2 as httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chargehand_plugins.console.tests.conftest import TOKEN, open_console
from chargehand_plugins.http_server import build_server, listen, running
from tests.conftest import local_server
from tests.scripted_model import Script, answer, subtask

_PREFIX: Final = 24
"""Number of characters of a message's id with which the A2A suite tells the agent what to do."""
_NUMBERS: Final = count(1)
_SCENARIOS: Final = (
    *("server-initialize", "ping", "tools-list", "resources-list", "prompts-list"),
    *("server-sse-multiple-streams", "dns-rebinding-protection"),
)
"""Scenarios for a server with its own tools: the others call tools, prompts and resources of the suite, and features
that a server need not declare."""
_CLIENT_SCENARIOS: Final = (
    *("initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"),
    *("auth/client-credentials-basic", "auth/resource-mismatch"),
)
"""Scenarios for a client without a person at a browser: in the others a person signs in, the client signs tokens with
its own key, or a user's tokens are exchanged."""
_SCRIPT: Final = (
    Script()
    .plan(subtask("T1", instruction="Have tck-complete written."))
    .plan(subtask("T1"), goal="tck-input-required")
    .work("", answer("", status="ambiguous_input").model_copy(update={"message": "Which?"}))
    .work("tck-complete", answer("Hello from TCK"))
)


def main() -> int:
    """Run a suite and write its results."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__)
    parser.add_argument("suite", choices=[*_SUITES])
    parser.add_argument("where", type=Path)
    parser.add_argument("--write", type=Path, help="put the results into this page")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chargehand-suite-") as folder:
        results = asyncio.run(_SUITES[chosen.suite](chosen.where.absolute(), Path(folder)))
    text = _section(chosen.suite, results)
    print(text)
    if chosen.write:
        kept = chosen.write.read_text(encoding="utf-8")
        begin, end = f"<!-- {chosen.suite} -->\n", f"<!-- end of {chosen.suite} -->"
        before, _, rest = kept.partition(begin)
        chosen.write.write_text(f"{before}{begin}{text}{end}{rest.partition(end)[2]}", encoding="utf-8")
    return 0


async def _a2a(checkout: Path, folder: Path) -> Mapping[str, tuple[str, str]]:
    """Run the TCK over JSON-RPC; return the status of each requirement, with its level and error."""
    python = str(checkout / ".venv/bin/python")
    async with (
        local_server() as client,
        open_console(client, folder, _SCRIPT) as console,
        _signed_in(console.running.url, TOKEN) as url,
    ):
        await _call(python, "run_tck.py", "--sut-host", url, "--transport", "jsonrpc", at=checkout)
    report = json.loads((checkout / "reports/compatibility.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = report["per_requirement"]
    return {
        f"{name} ({each['level']})": (each["status"], _first_line(each["errors"]))
        for name, each in found.items()
        if {"jsonrpc", "agent_card", ""} & set(each["transports"]) and each["status"] != "SKIPPED"
    }


async def _mcp(program: Path, folder: Path) -> Mapping[str, tuple[str, str]]:
    """Run the scenarios for servers; return the status of each check."""
    with listen("127.0.0.1", 0) as free:
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", "chargehand_cli.main", "mcp", "--http", str(port), "--state-dir", str(folder)]
    environment = os.environ | {"CHARGEHAND_MCP_TOKEN": TOKEN * 2}
    serving = await asyncio.create_subprocess_exec(*command, env=environment)
    base, out = f"http://127.0.0.1:{port}", folder / "results"
    try:
        await _answers(f"{base}/mcp")
        async with _signed_in(base, TOKEN * 2) as url:
            for scenario in _SCENARIOS:
                told = ("--scenario", scenario, "--output-dir", str(out))
                await _call(str(program), "server", "--url", f"{url}/mcp", *told, at=folder)
    finally:
        serving.terminate()
        await serving.wait()
    return _checks(out)


async def _mcp_client(program: Path, folder: Path) -> Mapping[str, tuple[str, str]]:
    """Run the scenarios for clients; return the status of each check."""
    command = f"{shlex.quote(sys.executable)} -m tests.suites.mcp_client"
    for scenario in _CLIENT_SCENARIOS:
        told = ("--command", command, "--scenario", scenario, "--output-dir", str(folder))
        await _call(str(program), "client", *told, at=Path.cwd())
    return _checks(folder)


def _checks(folder: Path) -> dict[str, tuple[str, str]]:
    """Read the results of an MCP suite's checks; for repeated checks, the worst."""
    checks: dict[str, tuple[str, str]] = {}
    for path in sorted(folder.rglob("checks.json")):
        for check in json.loads(path.read_text(encoding="utf-8")):
            if check["status"] != "INFO" and checks.get(check["id"], ("SUCCESS", ""))[0] == "SUCCESS":
                checks[check["id"]] = (check["status"], _first_line([check.get("errorMessage") or ""]))
    return checks


async def _call(*command: str, at: Path) -> None:
    """Run a suite; its exit code is ignored, as its report contains the result."""
    process = await asyncio.create_subprocess_exec(*command, cwd=at, stdout=asyncio.subprocess.DEVNULL)
    await process.wait()


async def _answers(url: str) -> None:
    async with asyncio.timeout(60), httpx.AsyncClient(trust_env=False) as http:
        while True:
            with suppress(httpx.TransportError):
                await http.get(url)
                return
            await asyncio.sleep(0.2)


@asynccontextmanager
async def _signed_in(base: str, token: str) -> AsyncGenerator[str]:
    """Forward requests with the token, which the suites cannot send; yield the URL that takes them.

    A message's text is prefixed with its id, by which the suite tells the agent what to do, and ends with a number: the
    suite reuses an id for several tasks, which here would be the same message sent again.
    """
    listening = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"

    async def forward(request: Request) -> Response:
        headers = {name: value for name, value in request.headers.items() if name not in {"host", "content-length"}}
        if "host" in request.headers and request.headers["host"] != url.removeprefix("http://"):
            headers["host"] = request.headers["host"]  # requests that pretend to be for another host must be refused
        sent = await http.request(
            request.method,
            f"{base}{request.url.path}",
            content=_with_id(await request.body()),
            headers=headers | {"authorization": f"Bearer {token}"},
        )
        dropped = {"content-length", "content-encoding", "transfer-encoding"}
        kept = {name: value for name, value in sent.headers.items() if name not in dropped}
        return Response(sent.content.replace(base.encode(), url.encode()), sent.status_code, kept)

    app = Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST", "DELETE"])])
    async with (
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
        running(build_server(app, None, None), listening),
    ):
        yield url


def _with_id(body: bytes) -> bytes:
    try:
        request = json.loads(body)
        part = request["params"]["message"]["parts"][0]
        part["text"] = f"{request['params']['message']['messageId'][:_PREFIX]} {part['text']} {next(_NUMBERS)}"
    except (ValueError, KeyError, TypeError, IndexError):
        return body
    return json.dumps(request).encode()


def _first_line(errors: list[str]) -> str:
    said = next((line for error in errors for line in str(error).splitlines() if line.strip()), "")
    # Suites quote what they skip together with the local path of its file.
    return re.sub(r"^\('[^']*', \d+, '(.*)'\)$", r"\1", said).replace("|", "∣")[:200]


def _section(suite: str, results: Mapping[str, tuple[str, str]]) -> str:
    counts = Counter(status for status, _ in results.values())
    totals = ", ".join(f"{count} {status.lower()}" for status, count in counts.items())
    lines = [f"{datetime.now(UTC):%Y-%m-%d}, `python -m tests.suites {suite} …`: {totals}."]
    failed = sorted(name for name, (status, _) in results.items() if status not in {"PASS", "SUCCESS"})
    if failed:
        lines += ["\n| requirement | result | what was said |", "|---|---|---|"]
    lines += [f"| {name} | {results[name][0].lower()} | {results[name][1]} |" for name in failed]
    return "\n".join(lines) + "\n"


_SUITES: Final = {"a2a": _a2a, "mcp": _mcp, "mcp-client": _mcp_client}


if __name__ == "__main__":
    sys.exit(main())
