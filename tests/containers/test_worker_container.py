"""The image is built, and the worker runs in a container as `docker-compose.yml` says, on the host's network.

Needs Docker, or podman with runc: `make test CONTAINER=1`.
"""

import asyncio
import json
import re
import ssl
import subprocess
from collections import Counter
from collections.abc import AsyncGenerator
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import httpx2
import pytest
import yaml
from temporalio.client import Client

from chargehand.client import Chargehand
from tests.acceptance.test_real_wires import GOAL, settings
from tests.containers.engine import ROOT, Engine, find_engine, options_of, service
from tests.loopback_http import free_port
from tests.scripted_provider import ScriptedProvider, ScriptedReply, ScriptedRequest, canned_session
from tests.waiting import until

pytestmark = [pytest.mark.container, pytest.mark.timeout(1_500)]
WORKER = service("worker")
GRACE_SECONDS = str(60 * int(WORKER["stop_grace_period"].removesuffix("m")))
_STATE = WORKER["environment"]["CHARGEHAND_STATE_DIR"]
_UNDER_TEST = """
import os, pathlib, re
def may_write(folder):
    try:
        pathlib.Path(folder, "probe").write_text("")
    except OSError:
        return False
    return True
status = dict(re.findall(r"^(\\w+):\\s*(.*)$", pathlib.Path("/proc/self/status").read_text(), re.M))
folders = ["/", "/app", "/run", "/tmp", STATE]
print(os.getuid(), int(status["CapBnd"], 16), status["NoNewPrivs"], *map(may_write, folders))
""".replace("STATE", repr(_STATE))


@pytest.fixture(scope="module")
def engine() -> Engine:
    """A container runtime with the image."""
    found = find_engine()
    if found is None:
        pytest.fail(
            "CONTAINER=1 needs Docker, or podman and runc (Debian: apt install podman runc catatonit debootstrap)"
        )
    found.build()
    return found


@pytest.fixture
async def volume(engine: Engine) -> AsyncGenerator[str]:
    async with engine.volume() as name:
        yield name


def worker_options(engine: Engine, volume: str, chosen: dict[str, str]) -> list[str]:
    own = {name: value for name, value in chosen.items() if name != "CHARGEHAND_STATE_DIR"}
    return options_of(WORKER, volume, own, podman=engine.is_podman)


async def is_healthy(engine: Engine, container: str) -> bool:
    """Run the command of the compose file's health check."""
    kind, command = WORKER["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    return (await engine.call("exec", container, "sh", "-c", command)).code == 0


async def test_the_container_worker_is_unprivileged(engine: Engine, volume: str) -> None:
    """It is user 10001, has and can gain no capabilities, and writes only to its state and scratch directories."""
    ran = await engine.run(worker_options(engine, volume, {}), "python", "-c", _UNDER_TEST)

    assert ran.out.split() == ["10001", "0", "1", "False", "False", "False", "True", "True"], ran.err


async def test_a_stopped_worker_finishes_its_call_and_the_next_continues(
    engine: Engine, volume: str, client: Client, tmp_path: Path
) -> None:
    """The first records the reply and exits with 0; every call is made and paid for once."""
    canned = canned_session()
    held, answered = asyncio.Event(), asyncio.Event()

    async def respond(request: ScriptedRequest) -> ScriptedReply:
        if request.rounds == 1 and "part 3 of" in request.text:
            held.set()
            await answered.wait()
        reply = canned(request)
        assert isinstance(reply, ScriptedReply)
        return reply

    async with ScriptedProvider(respond) as server:
        chosen = settings("openai_compatible", server.base_url, client, tmp_path)
        options = worker_options(engine, volume, chosen)
        chargehand = Chargehand(client, chosen["CHARGEHAND_TASK_QUEUE"])
        async with engine.container(options) as first:
            await until(lambda: is_healthy(engine, first))
            session = await chargehand.start(GOAL)
            await held.wait()
            stopping = asyncio.create_task(engine.call("stop", "--time", GRACE_SECONDS, first, seconds=180))
            await until(lambda: is_unhealthy(engine, first))
            answered.set()
            await stopping
            code = (await engine.call("inspect", "--format", "{{.State.ExitCode}}", first)).out.strip()
            log = await engine.call("logs", first)
        async with engine.container(options) as second:
            report = await asyncio.wait_for(session.result(), 120)
            doctor = await engine.call("exec", second, "chargehand", "doctor")
        asked = Counter(json.dumps(request.body, sort_keys=True) for request in server.requests)

    assert code == "0", log.out + log.err
    assert report.stop_reason == "completed"
    assert [record.state for record in report.subtasks] == ["success"] * 5
    assert set(asked.values()) == {1}
    assert report.usage.turns == server.charges == len(asked)
    assert report.usage.possibly_billed_twice_usd == 0
    assert doctor.code == 0, doctor.out + doctor.err


async def is_unhealthy(engine: Engine, container: str) -> bool:
    return not await is_healthy(engine, container)


async def test_documents_reach_the_worker_through_the_shared_volume(
    engine: Engine, volume: str, client: Client
) -> None:
    """The image's `chargehand run --docs` works as described in deploy/README.md, without a key."""
    chosen = {"CHARGEHAND_TASK_QUEUE": f"container-{uuid4().hex[:8]}"}
    chosen |= {"TEMPORAL_ADDRESS": client.service_client.config.target_host}
    options = worker_options(engine, volume, chosen)
    command = ["chargehand", "run", "--artifacts", f"{_STATE}/artifacts", "--docs", "/documents"]
    documents = f"--volume={ROOT / 'examples' / 'harbour-ferries'}:/documents:ro"

    async with engine.container(options):
        asked = [*command, "At what wind does the Island route stop?"]
        ran = await engine.run([*options, documents], *asked, seconds=120)

    assert "a mean wind of 26 knots" in ran.out, ran.err


async def test_the_console_runs_with_its_kubernetes_arguments(
    engine: Engine, volume: str, client: Client, tmp_path: Path
) -> None:
    """Confined like the worker, it answers health checks over TLS under its public host name."""
    container = read_manifest("console")["spec"]["template"]["spec"]["containers"][0]
    port = free_port()
    arguments = [re.sub(r"--port=\d+", f"--port={port}", each) for each in container["args"]]
    arguments = [each.replace("$(CONSOLE_HOST)", "chargehand.example.com") for each in arguments]
    make_certificate(tmp_path, "chargehand.example.com")
    settings = {"TEMPORAL_ADDRESS": client.service_client.config.target_host, "CHARGEHAND_CONSOLE_TOKEN": uuid4().hex}
    options = [*worker_options(engine, volume, settings), f"--volume={tmp_path}:/tls:ro"]
    check = container["livenessProbe"]["httpGet"]
    trusted = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))

    async with (
        engine.container(options, *container["command"], *arguments) as name,
        httpx2.AsyncClient(verify=trusted) as http,
    ):

        async def is_healthy() -> bool:
            try:
                answer = await http.get(
                    f"https://127.0.0.1:{port}{check['path']}",
                    headers={each["name"]: each["value"] for each in check["httpHeaders"]},
                    extensions={"sni_hostname": "chargehand.example.com"},
                )
            except httpx2.TransportError:
                return False
            return answer.status_code == HTTPStatus.OK

        try:
            await until(is_healthy)
        except TimeoutError:
            pytest.fail((await engine.call("logs", name)).err)


def read_manifest(name: str) -> dict[str, Any]:
    file = ROOT / "deploy" / "kubernetes" / name / "deployment.yaml"
    return cast("dict[str, Any]", yaml.safe_load(file.read_text("utf-8")))


def make_certificate(folder: Path, name: str) -> None:
    """Write `tls.crt` and `tls.key`, readable by the container's user."""
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, *files]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    for file in folder.iterdir():
        file.chmod(0o644)
    folder.chmod(0o755)
