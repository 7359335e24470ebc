"""Documents of sessions: unreadable ones are gaps with a reason, and none of their words is stored in clear."""

import base64
import contextlib
import hashlib
import json
import os
import random
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from itertools import product
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from hypothesis import settings as hypothesis_settings
from pydantic import SecretStr
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.crews.versions import CrewVersions
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.documents.names import UnknownDocumentError
from activities.opening.activity import SessionActivities
from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.upload import store_documents
from chargehand.wire import ErrorType
from tests.activities.documents.made_documents import HANDBOOK, SALES, blank_pdf, contract, pdf, prices, textless_pdf
from tests.environment import open_environment
from tests.scripted_model import Script, subtask
from tests.workflows.conftest import connect
from worker.composition import compose, encryption
from worker.settings import Settings
from worker.workers import build_worker

GOOD: Final[Mapping[str, Callable[[], bytes]]] = {
    "pdf": pdf,
    "docx": contract,
    "xlsx": prices,
    "csv": SALES.encode,
    "md": HANDBOOK.encode,
    "html": lambda: b"<html><body><h1>Leave</h1><p>28 days.</p></body></html>",
    "txt": HANDBOOK.encode,
}
VARIANTS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "whole": lambda whole: whole,
    "empty": lambda _: b"",
    "spaces": lambda _: b" \n\n ",
    "cut": lambda whole: whole[: len(whole) // 2],
    "noise": lambda whole: random.Random(len(whole)).randbytes(5_000),
    "pdf": lambda _: blank_pdf(),
    "locked": lambda _: textless_pdf("secret"),
    "zip": lambda _: b"PK\x03\x04" + b"x" * 500,
    "laughs": lambda _: b'<!DOCTYPE x [<!ENTITY a "ha">]><x>&a;</x>',
}
MEMBERS: Final = [*product(GOOD, VARIANTS), ("exe", "noise"), ("png", "noise")]
_SAMPLE: Final = (
    MEMBERS if hypothesis_settings.get_current_profile_name() == "nightly" else random.Random(13).sample(MEMBERS, 4)
)


def _member(suffix: str, variant: str) -> bytes:
    return VARIANTS[variant](GOOD.get(suffix, lambda: b"x" * 100)())


def _lost(folder: Path) -> list[str]:
    """Return addresses without a document: missing, forbidden, not a regular file, or never uploaded."""
    (folder / "dangling.md").symlink_to(folder / "nothing.md")
    (folder / "link.md").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.md")
    digest = hashlib.sha256(b"never uploaded").hexdigest()
    names = ("missing.md", "dangling.md", "link.md", "pipe.md", f"../{folder.name}-elsewhere.md")
    uploads = (f"artifact:{digest}/upload.md", f"artifact:{digest}/folder/")
    return [*(f"file:{folder}/{name}" for name in names), "file:/etc/passwd", *uploads, "https://127.0.0.1:9/page.html"]


async def _readable(library: DocumentLibrary, documents: tuple[str, ...]) -> set[str]:
    opened = await library.open(documents)
    names: set[str] = set()
    for entry in opened.catalog.documents:
        with contextlib.suppress(UnknownDocumentError):
            has_rows = any(table.rows for table in opened.catalog.tables if table.document == entry.name)
            if has_rows or any(part.quote.strip() for part in (await opened.read(entry.name)).sources):
                names.add(entry.name)
    return names


async def test_unreadable_documents_are_gaps_with_their_reasons(client: Client, tmp_path: Path) -> None:
    """Of all generated documents in one session, each is either readable by its agents or named in the report."""
    folder = tmp_path / "documents"
    folder.mkdir()
    for suffix, variant in MEMBERS:
        (folder / f"{suffix}-{variant}.{suffix}").write_bytes(_member(suffix, variant))
    (folder / "good.md").write_text(HANDBOOK)
    local = [f"file:{path}" for path in sorted(folder.iterdir())]
    documents = (*local, *_lost(folder))
    script = Script().plan(subtask("T1"))
    async with open_environment(client, tmp_path, script, document_roots=(folder,)) as opened:
        report = await opened.run(SessionRequest(goal="What is known?", documents=documents))

    library = DocumentLibrary(ArtifactStore(tmp_path / "artifacts"), tmp_path / "indexes", (folder,))
    readable = await _readable(library, documents)
    given = {uri.rstrip("/").rpartition("/")[2] for uri in documents}
    gaps = [gap.removeprefix("A document was not read: ") for gap in report.gaps]
    named = {gap.partition(": ")[0].rpartition("/")[2]: gap.partition(": ")[2] for gap in gaps}
    assert "good.md" in readable
    assert len(named) > 20
    assert given - readable - named.keys() == set()
    assert readable & named.keys() == set()
    assert all(len(reason) > 5 for reason in named.values())


@pytest.mark.parametrize(("suffix", "variant"), [*_SAMPLE, ("", "lost")])
async def test_a_session_whose_documents_are_all_unreadable_is_refused(
    client: Client, tmp_path: Path, suffix: str, variant: str
) -> None:
    """Nothing is paid, and the error has the reasons; with one readable document it is accepted."""
    folder = tmp_path / "documents"
    folder.mkdir()
    if suffix:
        (folder / f"only.{suffix}").write_bytes(_member(suffix, variant))
        documents = (f"file:{folder}/only.{suffix}",)
    else:
        documents = tuple(_lost(folder))
    library = DocumentLibrary(ArtifactStore(tmp_path / "artifacts"), tmp_path / "indexes", (folder,))
    activities = SessionActivities(CrewVersions({}, {}), {}, Settings().ceilings, library=library)

    readable = await _readable(library, documents)
    opening = ActivityEnvironment(client=client).run(activities.unread, documents)
    if readable:
        lost = [gap for gap in await opening if gap.startswith("A document was not read: ")]
        assert len(readable) + len(lost) == len(documents)
        return
    with pytest.raises(ApplicationError) as refusal:
        await opening

    assert refusal.value.type == ErrorType.INVALID_INPUT
    assert refusal.value.message.startswith("Invalid SessionRequest: documents: none of them can be read; ")
    assert all(uri.rstrip("/").rpartition("/")[2] in refusal.value.message for uri in documents)


CANARY = "canary-90ce"
DOCUMENT = "# The aviary\n\n" + "\n\n".join(
    f"Cage {number} of the aviary holds {CANARY}, which sings {number} hours a day." for number in range(1, 200)
)


async def test_document_text_is_never_stored_unencrypted(client: Client, tmp_path: Path) -> None:
    """Uploaded documents and stored conversations cannot be read without the key."""
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
    connected = await connect(client, sealing)

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
