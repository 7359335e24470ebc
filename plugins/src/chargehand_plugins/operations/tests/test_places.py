"""What `doctor` checks on real loopback services: the places, mail, spans and searches in settings."""

import asyncio
import json
from pathlib import Path

import pytest

from chargehand_plugins.notifications.tests.test_notifications import mail_server
from tests.loopback_http import LoopbackHandler, serve_http
from worker.process import report_unusable
from worker.program import main
from worker.settings import read_settings

_PLACES = {"ARTIFACTS": "documents' store", "STORAGE": "large payloads", "HEALTH_FILE": "health file"}
"""Row of `doctor` by setting."""


class Services(LoopbackHandler):
    """Accepts spans and answers searches, except with a wrong key or at a wrong path."""

    def reply(self) -> None:
        self.body()
        is_known = self.path == "/v1/traces" or self.path.startswith("/search?")
        status = 401 if self.headers.get("key") == "wrong" else 200 if is_known else 404
        self.answer(status, b'{"results": []}' if self.path.startswith("/search") else b"")


async def test_every_place_named_by_settings_is_tried(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Places are written to and services asked as a worker would; a worker that starts logs the same problems."""
    (tmp_path / "file").write_text("")
    blocked = f"{tmp_path}/file/below"
    gone = "http://127.0.0.1:9"
    with serve_http(Services) as url, mail_server() as (mail, _):
        otlp, searx = "OTEL_EXPORTER_OTLP_ENDPOINT", "CHARGEHAND_SEARXNG_URL"
        named = mail.replace("//", "//desk:right@")
        usual = {"CHARGEHAND_STATE_DIR": str(tmp_path), "CHARGEHAND_SMTP": named, otlp: url}
        works = {f"CHARGEHAND_{name}": (f"{tmp_path}/{name}", row, "") for name, row in _PLACES.items()}
        fails = {f"CHARGEHAND_{name}": (blocked, row, "nothing can be written") for name, row in _PLACES.items()}
        for tried in (
            {**works, "CHARGEHAND_SMTP": (named, "e-mail", ""), otlp: (url, "spans", ""), searx: (url, "search", "")},
            {
                **fails,
                "CHARGEHAND_SMTP": (named.replace("right", "wrong"), "e-mail", "refuses the user or password"),
                otlp: (f"{url}/v1/traces", "spans", "without /v1/traces"),
                searx: (f"{url}/search", "search", "without /search"),
            },
            {
                "CHARGEHAND_HEALTH_FILE": (f"{tmp_path}", "health file", "name a file in it"),
                "CHARGEHAND_STORAGE": ("relative", "large payloads", "must be the absolute path"),
                "CHARGEHAND_SMTP_FROM": ("refused@desk.example", "e-mail", "check CHARGEHAND_SMTP_FROM"),
                "OTEL_EXPORTER_OTLP_HEADERS": ("key=wrong", "spans", "check OTEL_EXPORTER_OTLP_HEADERS"),
                searx: (gone, "search", "check its address"),
            },
            {
                "CHARGEHAND_SMTP": ("smtp://127.0.0.1:9", "e-mail", "Connection refused"),
                otlp: (gone, "spans", "whether it is running"),
            },
        ):
            with monkeypatch.context() as environment:
                for name, value in (usual | {name: value for name, (value, _, _) in tried.items()}).items():
                    environment.setenv(name, value)
                assert await asyncio.to_thread(main, ["--explain"]) == 0
                caplog.clear()
                await report_unusable(read_settings())
            told = {each["backend"]: each for each in json.loads(capsys.readouterr().out)["active"]}
            for variable, (_, backend, problem) in tried.items():
                assert problem in told[backend]["problem"], (variable, told[backend])
                is_logged = any(problem in each.message and backend in each.message for each in caplog.records)
                assert is_logged == bool(problem and backend != "search")
                assert bool(problem) == bool(told[backend]["problem"]), (variable, told[backend])
            assert "right" not in json.dumps(told)
