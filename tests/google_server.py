"""A Google Cloud Storage on loopback, over the real wire: an emulator in a separate thread."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any
from unittest.mock import patch

from tests.loopback_http import free_port
from tests.s3_server import BUCKET, skip_without_buckets


@contextmanager
def serve_google() -> Generator[Any]:
    """Serve an empty bucket, and point Google's settings to it."""
    skip_without_buckets()
    from gcp_storage_emulator.exceptions import NotFound
    from gcp_storage_emulator.handlers import objects
    from gcp_storage_emulator.server import create_server  # pyright: ignore[reportUnknownVariableType]
    from google.cloud import storage

    port = free_port()
    upload: Any = objects._multipart_upload  # pyright: ignore # as below
    changes = threading.Lock()

    def upload_if_absent(request: Any, response: Any, storage: Any) -> None:
        """Honour `ifGenerationMatch=0`, which the emulator ignores."""
        with changes:
            with suppress(NotFound):
                if request.query.get("ifGenerationMatch") == ["0"]:
                    storage.get_file_obj(request.params["bucket_name"], request.data["meta"]["name"])
                    response.status = HTTPStatus.PRECONDITION_FAILED
                    return
            upload(request, response, storage)

    server: Any = create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    server.start()
    try:
        with (
            patch.dict(os.environ, {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"}),
            patch.object(objects, "_multipart_upload", upload_if_absent),
        ):
            client: Any = storage.Client(project=None)
            yield client.bucket(BUCKET)
            client.close()
    finally:
        server.stop()
