"""The codec server with the command lines that need it: Temporal's own, and ours, which runs it."""

import asyncio
import base64
import json
import os
import signal
import sys
import urllib.request
from pathlib import Path
from uuid import uuid4

from google.protobuf import json_format
from temporalio.api.common.v1 import Payloads
from temporalio.client import Client

from chargehand.converter import data_converter
from chargehand.payloads.encryption import Encryption
from chargehand_plugins.codec_server.server import CodecServerSettings, serving
from tests.conftest import temporal_program
from tests.environment import open_environment
from tests.workflows.test_protected_sessions import CANARY, SINGING, encrypted, everything_stored

__all__ = ["encrypted"]


async def _temporal(client: Client, *arguments: str) -> tuple[int | None, str]:
    """Run Temporal's own command line on a server."""
    process = await asyncio.create_subprocess_exec(
        temporal_program(),
        *arguments,
        "--address",
        client.service_client.config.target_host,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, output.decode()


async def test_temporals_own_command_line_takes_part(client: Client, encrypted: Client, tmp_path: Path) -> None:
    """With the codec server a session is started and read in clear by `temporal`, and nothing is in clear between."""
    served = {client.namespace: encrypted.data_converter}
    workflow_id = f"session-{uuid4().hex[:8]}"
    async with (
        serving(CodecServerSettings("a-token-of-tests", served, port=0)) as codec,
        open_environment(encrypted, tmp_path, SINGING) as opened,
    ):
        endpoint = ("--codec-endpoint", codec, "--codec-auth", "Bearer a-token-of-tests")
        start = ("--type", "Supervisor", "--task-queue", opened.chargehand.task_queue, "--workflow-id", workflow_id)
        code, said = await _temporal(
            client, "workflow", "execute", *start, "--input", json.dumps({"goal": f"Find the {CANARY}."}), *endpoint
        )
        _, without = await _temporal(client, "workflow", "result", "--workflow-id", workflow_id)

    assert code == 0
    assert f"The {CANARY} sings" in said
    assert "binary/encrypted" in without
    assert CANARY not in without
    assert CANARY not in await everything_stored(client, workflow_id)


async def test_the_codec_server_is_one_command(tmp_path: Path) -> None:
    """`chargehand codec-server` serves until it is ended, says where, and does not tell the token it was given."""
    token = "token-of-the-operator"
    keys = json.dumps({"one": base64.b64encode(bytes(32)).decode()})
    settings = {
        "CHARGEHAND_ENCRYPTION_KEYS": keys,
        "CHARGEHAND_ENCRYPTION_KEY_ID": "one",
        "CHARGEHAND_CODEC_TOKEN": token,
        "CHARGEHAND_STATE_DIR": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "chargehand_cli.main",
        "codec-server",
        "--port",
        "0",
        env=settings,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    try:
        first = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
        url = first.split()[3]
        [sealed] = await data_converter(Encryption({"one": bytes(32)}, "one")).encode(["canary"])
        body = json_format.MessageToJson(Payloads(payloads=[sealed])).encode()
        request = urllib.request.Request(f"{url}/{token}/decode", body, {"X-Namespace": "default"})
        answer = await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=10).read())
    finally:
        process.send_signal(signal.SIGINT)
        rest = (await process.stderr.read()).decode()

    assert await process.wait() == 0
    assert base64.b64decode(json.loads(answer)["payloads"][0]["data"]) == b'"canary"'
    assert token not in first + rest
