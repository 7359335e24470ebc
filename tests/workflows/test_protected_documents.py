"""A session over a document with encryption on: what is left in the directories that its worker and client share."""

import base64
import json
import os
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

from pydantic import SecretStr
from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.converter import data_converter
from chargehand.upload import store_documents
from worker.composition import compose, encryption
from worker.settings import Settings
from worker.workers import build_worker

CANARY = "canary-90ce"
DOCUMENT = "# The aviary\n\n" + "\n\n".join(
    f"Cage {number} of the aviary holds {CANARY}, which sings {number} hours a day." for number in range(1, 200)
)


async def test_no_word_of_a_document_is_stored_in_clear(client: Client, tmp_path: Path) -> None:
    """Documents that were uploaded and conversations that were kept cannot be read without the key."""
    settings = Settings(
        state_dir=tmp_path / "state",
        task_queue=f"test-{uuid4().hex[:8]}",
        provider="extractive",
        encryption_keys=SecretStr(json.dumps({"one": base64.b64encode(bytes(range(32))).decode()})),
        encryption_key_id="one",
    )
    sealing = encryption(settings)
    (tmp_path / "aviary.md").write_text(DOCUMENT)
    uris = store_documents([tmp_path / "aviary.md"], settings.state_dir / "artifacts", encryption=sealing)
    connected = await Client.connect(client.service_client.config.target_host, data_converter=data_converter(sealing))

    async with AsyncExitStack() as closing:
        activities = await compose(settings, os.environ, closing)
        async with build_worker(connected, settings, activities):
            session = await Chargehand(connected, settings.task_queue).start(
                SessionRequest(goal="How many hours a day does the bird in cage 7 of the aviary sing?", documents=uris)
            )
            report = await session.result()

    folders = [settings.state_dir / name for name in ("artifacts", "conversations")]
    kept = {folder.name: [path for path in folder.rglob("*") if path.is_file()] for folder in folders}
    assert report.stop_reason == "partial"  # the rules quote, and do not answer
    assert CANARY in report.answer
    assert all(kept.values())
    assert [path for paths in kept.values() for path in paths if CANARY.encode() in path.read_bytes()] == []
    assert all(path.read_bytes().startswith(b"CHS1") for paths in kept.values() for path in paths)
