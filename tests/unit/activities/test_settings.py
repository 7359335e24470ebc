"""Unusable settings end the worker with the name that the operator typed and the reason."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.backends import SettingsError
from activities.documents.registry import require_writable
from chargehand.contracts import Limits
from chargehand.contracts.limits import PROFILES
from chargehand.environment import SETTINGS, describe_unknown
from tests.parameters import first_fast
from worker import program
from worker.settings import Settings, settings_type


def test_all_wrong_settings_are_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the first value that is not JSON nor the first unknown backend hides the others."""
    told: list[str] = []
    for wrong in (
        {"CHARGEHAND_CEILINGS": "lots", "CHARGEHAND_PRICES": "[", "CHARGEHAND_LOG_LEVEL": "loud"},
        {"CHARGEHAND_PROVIDER": "nobody", "CHARGEHAND_SEARCH": "nobody", "CHARGEHAND_CODE": "nobody"},
    ):
        with monkeypatch.context() as environment:
            for name, value in wrong.items():
                environment.setenv(name, value)
            assert program.main(["--check-settings"]) == 2
        message = capsys.readouterr().err
        told += [name for name in wrong if name in message]

    assert len(told) == 6


def test_every_setting_is_known_to_commands() -> None:
    """Their list has every worker setting, and three that only commands read."""
    read = {f"CHARGEHAND_{name.upper()}" for name, field in Settings.model_fields.items() if not field.validation_alias}

    assert SETTINGS - read == {"CHARGEHAND_PLUGINS", "CHARGEHAND_UI_URL", "CHARGEHAND_WORKER"}
    assert read <= SETTINGS


def test_unknown_chargehand_variables_are_reported() -> None:
    environment = {
        "CHARGEHAND_ENCRYPTION_KEY": "",
        "CHARGEHAND_WEATHER": "fine",
        "CHARGEHAND_UI_URL": "t",
        "CHARGEHAND_STORAGE": "/s",
        "E2B_API_KEY": "k",
        "HOME": "/home/ada",
    }

    assert describe_unknown(environment) == [
        "CHARGEHAND_ENCRYPTION_KEY is not a setting; did you mean CHARGEHAND_ENCRYPTION_KEYS?",
        "CHARGEHAND_WEATHER is not a setting",
    ]


_BAD_ADDRESSES = (
    "file:/etc/passwd", "ftp://host/", "localhost:80", "http://", "https:///path", " https://host",
    "http://h:x",
)  # fmt: skip
BAD = {
    "CHARGEHAND_TASK_QUEUE": ("", " ", "x" * 201),
    "CHARGEHAND_CREWS": ("/no/such/folder", "/etc/passwd"),
    "CHARGEHAND_DOCUMENT_ROOTS": ('["/no/such/folder"]', '["/etc/passwd"]', "/tmp"),
    "CHARGEHAND_PRICES": ('{"m": [1, 2], "m": [0, 0]}', '{"m": [-1, 0]}', '{"m": ["NaN", 0]}', '{"m": [1]}'),
    "CHARGEHAND_MODELS": ('{"small": "a", "small": "b"}',),
    "CHARGEHAND_CEILINGS": ('{"max_turns": 101}', '{"max_turns": 0}', '{"budget_usd": 1e999}'),
    "CHARGEHAND_REQUESTS_PER_SECOND": ("nan",),
    "CHARGEHAND_OUTPUT_TOKENS": ("12000", '{"work": 0}', '{"work": 200000}', '{"wrok": 12000}'),
    "CHARGEHAND_QUEUES": ('{"tools": 0}',),
    "CHARGEHAND_ROLES": ('["sandboxes"]', "[]"),
    "CHARGEHAND_DEPLOYMENT": ("", "crew.one"),
    "CHARGEHAND_BUILD_ID": ("", "without-a-deployment"),
    "CHARGEHAND_METRICS_ADDRESS": ("9464", "host"),
    "CHARGEHAND_WEBHOOK_SECRET": ("short", "whsec_" + "=" * 32),
    "CHARGEHAND_SMTP": ("mail.example.com:587", "smtp://:587", "smtp://host:x"),
    **dict.fromkeys(
        ("CHARGEHAND_NOTIFY", "CHARGEHAND_NOTIFY_LATER"),
        (
            '["slack:http://[::1"]',
            '["slack:https://hooks.example:99999/x"]',
            '["ntfy:https://:80/x"]',
            '["mailto:desk"]',
        ),
    ),
    **dict.fromkeys(
        ("CHARGEHAND_PAGE_HOSTS", "CHARGEHAND_WEBHOOK_HOSTS", "CHARGEHAND_NOTIFY_INTERNAL"),
        ("intranet", '["https://wiki.example"]', '["wiki/path"]', '["wiki:http"]', '[""]', '["user@wiki"]'),
    ),
    **dict.fromkeys(
        ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "TAVILY_BASE_URL", "CHARGEHAND_DECISION_URL"), _BAD_ADDRESSES
    ),
    "CHARGEHAND_SEARXNG_URL": (*_BAD_ADDRESSES, "http://host/?q=1"),
    "OTEL_TRACES_EXPORTER": ("console", "otlp,zipkin"),
    **dict.fromkeys(("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), _BAD_ADDRESSES),
}
"""Bad values in addition to those generated from each setting's form."""
_TRIED = {
    "CHARGEHAND_FALLBACK_PROVIDER", "CHARGEHAND_HEALTH_FILE", "CHARGEHAND_STATE_DIR", "CHARGEHAND_ARTIFACTS",
    "CHARGEHAND_STORAGE", "CHARGEHAND_TAPE_RECORD", "CHARGEHAND_CREDENTIAL_KEYS", "CHARGEHAND_ENCRYPTION_KEYS",
    "CHARGEHAND_ENCRYPTION_KEY_ID",
}  # fmt: skip
"""Settings that can only be checked by opening the folder, the bucket or the keys."""
_ANY_TEXT = {"OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER_ARG"}
_WRONG = "¿ {x"


def _wrong_values() -> Iterator[tuple[str, str]]:
    """Build values that are invalid for each setting with a form: of another type, out of bounds, or partly wrong."""
    for name, described in settings_type().model_json_schema()["properties"].items():
        setting = name if name.isupper() else f"CHARGEHAND_{name.upper()}"
        if setting in _TRIED | _ANY_TEXT or setting.endswith("_API_KEY"):
            continue
        yield setting, _WRONG
        for each in described.get("anyOf", [described]):
            yield from ((setting, f"{each[bound] - 1}") for bound in ("minimum", "exclusiveMinimum") if bound in each)
            yield from ((setting, f"{each['maximum'] + 1}") for _ in range("maximum" in each))
            if each.get("type") in {"array", "object"}:
                yield from ((setting, json.dumps(part)) for part in ([_WRONG], {_WRONG: _WRONG}, 7))
        yield from ((setting, value) for value in BAD.get(setting, ()))


def test_wrong_setting_values_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    for name, value in _wrong_values():
        with monkeypatch.context() as environment:
            environment.setenv(name, value)
            code = program.main(["--check-settings"])
        told = capsys.readouterr().err
        assert (code, name in told, len(told) < 1_000) == (2, True, True), (name, value, told)
        assert not re.search(r"pattern|\^|frozenset|validation|Path |Input|Decimal", told), told
        is_secret = re.search("KEY|SECRET|SMTP|NOTIFY|HEADERS", name)
        assert not (is_secret and _WRONG in told), told


@pytest.mark.parametrize("place", ["/dev/null/state", "/proc/state", "/etc/passwd"])
def test_an_unwritable_state_directory_is_refused_by_setting_name(place: str) -> None:
    with pytest.raises(SettingsError, match="CHARGEHAND_STATE_DIR"):
        require_writable(Path(place))


def test_external_storage_raises_the_default_ceilings() -> None:
    """With large payloads stored externally, every profile is allowed; ceilings set by the operator are kept."""
    stored, plain = Settings(storage="/tmp/payloads"), Settings()
    set_by_operator = Settings(storage="/tmp/payloads", ceilings=Limits(max_turns=7))

    assert [settings.ceilings.max_turns for settings in (stored, plain, set_by_operator)] == [1_000, 100, 7]
    numbers = [name for name in Limits.model_fields if name != "on_limit"]
    for limits in PROFILES.values():
        assert all(getattr(limits, name) <= getattr(stored.ceilings, name) for name in numbers)


_HOSTILE = {
    "escape": b"\x1b[31mred",
    "long": b"x" * 120_000,
    "bytes": b"\xff\xfe",
    "override": "\u202eabc".encode(),
    "deep": b"[" * 60_000,
    "digits": b'{"a": ' + b"9" * 10_000 + b"}",
    "surrogate": b'{"a": "\\ud800"}',
    "null": b"null",
    "home": b"~nobody_x/",
}


@pytest.mark.parametrize("hostile", first_fast(_HOSTILE.values(), 3, pytest.mark.nightly), ids=_HOSTILE)
def test_hostile_setting_values_are_accepted_or_refused_by_name(
    hostile: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for field, info in settings_type().model_fields.items():
        name = str(info.validation_alias or f"CHARGEHAND_{field.upper()}")
        with monkeypatch.context() as environment:
            environment.setenv(name, os.fsdecode(hostile))
            code = program.main(["--check-settings"])
        told = capsys.readouterr().err.removesuffix("\n")
        is_refused = code == 2 and name in told and len(told) <= 4_100 and told.isprintable()
        assert is_refused or code == 0, (name, code, told[:300])


def test_many_names_in_a_setting_are_read_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """With quadratic time, finding repeats among these 200,000 names would take minutes."""
    monkeypatch.setenv("CHARGEHAND_QUEUES", "{" + ",".join(f'"{number}":1' for number in range(200_000)) + "}")

    assert program.main(["--check-settings"]) == 2
