"""`chargehand clean`: its options, what is deleted from a directory of payloads, and what must not be."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest, ListWorkflowExecutionsResponse
from temporalio.client import Client
from temporalio.converter import StorageDriverStoreContext

from activities.documents.artifacts import ArtifactStore
from chargehand.bucket import artifact_key
from chargehand.payloads.storage import PayloadDirectory
from chargehand_plugins.operations.clean import Cleaning, clean_folders

NOW = datetime.now(UTC)
MONTH = timedelta(days=30)


@dataclass
class ServerWithWorkflows:
    """A client of a server with workflows started at these times."""

    started: tuple[datetime, ...]
    namespace: str = "default"

    @property
    def workflow_service(self) -> "ServerWithWorkflows":
        return self

    async def list_workflow_executions(
        self, asked: ListWorkflowExecutionsRequest, *, retry: bool
    ) -> ListWorkflowExecutionsResponse:
        assert asked.query.startswith("StartTime < ")
        assert retry
        answer = ListWorkflowExecutionsResponse()
        for each in self.started:
            answer.executions.add().start_time.FromDatetime(each)
        return answer


async def _stored(directory: PayloadDirectory, *ages: timedelta) -> list[Path]:
    """Store a payload for each age, and make it look that old."""
    paths: list[Path] = []
    for number, old in enumerate(ages):
        [claim] = await directory.store(StorageDriverStoreContext(), [Payload(data=b"%d" % number)])
        path = directory.folder / artifact_key(claim.claim_data["sha256"])
        at = (datetime.now(UTC) - old).timestamp()
        os.utime(path, (at, at))
        paths.append(path)
    return paths


async def test_payloads_an_old_workflow_may_need_are_kept(tmp_path: Path) -> None:
    """A workflow that started 40 days ago keeps everything stored since then, however old it is now."""
    directory = PayloadDirectory(tmp_path, "default")
    older, younger, new = await _stored(directory, timedelta(days=50), timedelta(days=35), timedelta(days=1))

    done = await _clean(directory.folder, MONTH, NOW - timedelta(days=31), NOW - timedelta(days=40))

    assert (done.files, done.kept) == (1, 2)
    assert (older.exists(), younger.exists(), new.exists()) == (False, True, True)
    assert done.before < NOW - timedelta(days=40)


async def _clean(folder: Path, older_than: timedelta, *started: datetime) -> Cleaning:
    client = cast("Client", ServerWithWorkflows(started))
    return await clean_folders(client, [folder], datetime.now(UTC) - older_than, delete=True)


async def test_payloads_of_the_last_hour_are_never_deleted(tmp_path: Path) -> None:
    """They are kept even at an age of zero, because a session may be about to start."""
    directory = PayloadDirectory(tmp_path, "default")
    [young] = await _stored(directory, timedelta(minutes=50))

    await _clean(directory.folder, timedelta(0))

    assert young.exists()


async def test_a_payload_stored_again_during_cleanup_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose time is renewed between inspection and deletion is put back."""
    directory = PayloadDirectory(tmp_path, "default")
    [path] = await _stored(directory, timedelta(days=50))
    monkeypatch.setattr("time.monotonic_ns", lambda: os.utime(path) or 1)  # happens just before the file moves

    done = await _clean(directory.folder, MONTH)

    assert (done.files, done.kept, path.exists()) == (0, 1, True)


async def test_cleaning_an_unused_directory_is_not_an_error(tmp_path: Path) -> None:
    """A directory that was never written to yields zero counts."""
    done = await _clean(PayloadDirectory(tmp_path, "x").folder, timedelta(1))

    assert (done.files, done.bytes, done.kept) == (0, 0, 0)


async def test_artifacts_are_cleaned_by_the_same_rule(tmp_path: Path) -> None:
    """A file made by an agent is deleted once no session can refer to it; one that was read since is kept."""
    store = ArtifactStore(tmp_path)
    unused, used = (store.put(content) for content in (b"a chart", b"a document"))
    for digest in (unused, used):
        old = (NOW - timedelta(days=50)).timestamp()
        os.utime(tmp_path / artifact_key(digest), (old, old))
    store.read(used)

    await _clean(tmp_path, MONTH)

    assert (store.has(unused), store.has(used)) == (False, True)
