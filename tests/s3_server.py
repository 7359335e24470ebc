"""An S3 on loopback, over the real wire: moto's server in a separate thread.

It takes one request at a time: moto looks for an object and stores it in two steps, S3 keeps conditional writes in one.
"""

import os
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Lock
from typing import Any, cast
from unittest.mock import patch

import pytest

from chargehand.plugins import installed

BUCKET = "documents"


def skip_without_buckets() -> None:
    if "buckets" not in installed().names:
        pytest.skip("the plug-in 'buckets' is not installed")


@contextmanager
def serve_s3() -> Generator[Any]:
    """Serve an empty bucket, and point AWS's settings to it."""
    skip_without_buckets()
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    serving = cast("Any", server)._server
    serving.app = _one_at_a_time(serving.app)
    try:
        host, port = server.get_host_and_port()
        settings = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        with patch.dict(os.environ, settings):
            # Stored objects belong to the process, not the server: another test may have left some.
            urllib.request.urlopen(
                urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
            ).close()
            client = cast("Any", boto3.client("s3"))  # pyright: ignore[reportUnknownMemberType] - boto3 has no types
            client.create_bucket(Bucket=BUCKET)
            yield client
    finally:
        server.stop()


def _one_at_a_time(app: Callable[..., Any]) -> Callable[..., Any]:
    lock = Lock()

    def serve(environ: Any, start_response: Any) -> Any:
        with lock:
            return app(environ, start_response)

    return serve
