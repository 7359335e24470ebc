"""What `doctor` tries on real services on loopback: places, mail, spans and searches that settings name."""

import asyncio
import json
from pathlib import Path

import pytest

from chargehand_plugins.notifications.tests.test_notifications import mail_server
from tests.loopback_http import LoopbackHandler, serve_http
from worker.program import main

_PLACES = {"ARTIFACTS": "documents' store", "STORAGE": "large payloads", "HEALTH_FILE": "health file"}
"""Row of `doctor` by setting."""


class Services(LoopbackHandler):
    """Takes spans and answers searches, but to a wrong key and at a wrong path."""

    def reply(self) -> None:
        self.body()
        is_known = self.path == "/v1/traces" or self.path.startswith("/search?")
        status = 401 if self.headers.get("key") == "wrong" else 200 if is_known else 404
        self.answer(status, b'{"results": []}' if self.path.startswith("/search") else b"")


async def test_what_settings_name_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Places are written to, and the mail server, the receiver of spans and the search are asked, as a worker would."""
    (tmp_path / "file").write_text("")
    blocked = f"{tmp_path}/file/below"
    gone = "http://127.0.0.1:9"
    with serve_http(Services) as url, mail_server() as (mail, _):
        named, otlp = mail.replace("//", "//desk:right@"), "OTEL_EXPORTER_OTLP_ENDPOINT"
        for variable, value, backend, problem in (
            *((f"CHARGEHAND_{name}", f"{tmp_path}/{name}", row, "") for name, row in _PLACES.items()),
            *((f"CHARGEHAND_{name}", blocked, row, "nothing can be written") for name, row in _PLACES.items()),
            ("CHARGEHAND_HEALTH_FILE", f"{tmp_path}", "health file", "name a file in it"),
            ("CHARGEHAND_STORAGE", "relative", "large payloads", "must be the absolute path"),
            ("CHARGEHAND_SMTP", named, "e-mail", ""),
            ("CHARGEHAND_SMTP", named.replace("right", "wrong"), "e-mail", "refuses the user or password"),
            ("CHARGEHAND_SMTP_FROM", "refused@desk.example", "e-mail", "check CHARGEHAND_SMTP_FROM"),
            ("CHARGEHAND_SMTP", "smtp://127.0.0.1:9", "e-mail", "Connection refused"),
            (otlp, url, "spans", ""),
            (otlp, f"{url}/v1/traces", "spans", "without /v1/traces"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "key=wrong", "spans", "check OTEL_EXPORTER_OTLP_HEADERS"),
            (otlp, gone, "spans", "whether it is running"),
            ("CHARGEHAND_SEARXNG_URL", url, "search", ""),
            ("CHARGEHAND_SEARXNG_URL", f"{url}/search", "search", "without /search"),
            ("CHARGEHAND_SEARXNG_URL", gone, "search", "check its address"),
        ):
            with monkeypatch.context() as environment:
                for name, usual in (("CHARGEHAND_STATE_DIR", str(tmp_path)), ("CHARGEHAND_SMTP", named), (otlp, url)):
                    environment.setenv(name, usual)
                environment.setenv(variable, value)
                assert await asyncio.to_thread(main, ["--explain"]) == 0
            told = {each["backend"]: each for each in json.loads(capsys.readouterr().out)["active"]}
            assert problem in told[backend]["problem"], (variable, told[backend])
            assert bool(problem) == bool(told[backend]["problem"]), (variable, told[backend])
            assert "right" not in json.dumps(told)
