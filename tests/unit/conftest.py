"""Places where payloads and records are kept, and a user's project."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.google_server import serve_google
from tests.s3_server import BUCKET, serve_s3


@pytest.fixture(params=["directory", "s3", "gs"], scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A directory, and the addresses of a bucket of an S3 and of a Google Cloud Storage on loopback."""
    if request.param == "directory":
        yield str(tmp_path_factory.mktemp("place"))
        return
    with serve_s3() if request.param == "s3" else serve_google():
        yield f"{request.param}://{BUCKET}/team"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's project, in which a program is started: its modules can be imported, and are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in set(sys.modules) - before:
        if not name.startswith(("chargehand", "activities", "worker", "workflows")):
            del sys.modules[name]
