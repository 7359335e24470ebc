"""A Google Cloud Storage on loopback, over the real wire: an emulator in a thread of its own."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from gcp_storage_emulator.server import create_server  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
from google.cloud import storage

from tests.s3_server import BUCKET


@contextmanager
def serve_google() -> Generator[Any]:
    """Serve one empty bucket, and have Google's settings lead to it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server: Any = create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    server.start()
    try:
        with patch.dict(os.environ, {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"}):
            client: Any = storage.Client(project=None)
            yield client.bucket(BUCKET)
            client.close()
    finally:
        server.stop()
