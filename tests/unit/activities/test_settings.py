"""Settings that cannot be used end the worker with the name that the operator typed, and what is wrong with it."""

import os
import time
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


def test_all_wrong_values_are_told_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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
    """Commands warn of names that are not in the list: it has those of workers, and three that commands read, too."""
    read = {f"CHARGEHAND_{name.upper()}" for name, field in Settings.model_fields.items() if not field.validation_alias}

    assert SETTINGS - read == {"CHARGEHAND_PLUGINS", "CHARGEHAND_UI_URL", "CHARGEHAND_WORKER"}
    assert read <= SETTINGS


def test_what_looks_like_a_setting_and_is_none_is_named() -> None:
    """A mistyped name is told with the one that was meant; others' settings and those of commands are left alone."""
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


_BAD_ADDRESSES = ("file:/etc/passwd", "ftp://host/", "localhost:80", "http://", "https:///path", " https://host")
_BAD_FOLDERS = ("/no/such/folder", "/etc/passwd")
BAD = {
    "CHARGEHAND_TASK_QUEUE": ("", " ", "two words", "x" * 201),
    "CHARGEHAND_CREWS": _BAD_FOLDERS,
    "CHARGEHAND_DOCUMENT_ROOTS": ('["/no/such/folder"]', '["/etc/passwd"]', '{"a": 1}', "/tmp"),
    "CHARGEHAND_PAGE_HOSTS": ("{}", "intranet"),
    "ANTHROPIC_BASE_URL": _BAD_ADDRESSES,
    "OPENAI_BASE_URL": _BAD_ADDRESSES,
    "TAVILY_BASE_URL": _BAD_ADDRESSES,
    "CHARGEHAND_PRICES": ('{"m": [1, 2], "m": [0, 0]}', '{"m": [-1, 0]}', '{"m": ["NaN", 0]}', '{"m": [1]}', "[]"),
    "CHARGEHAND_MODELS": ('{"small": "a", "small": "b"}', '{"huge": "a"}', "[]"),
    "CHARGEHAND_CEILINGS": (
        '{"max_turns": 101}',
        '{"max_turns": 5, "max_turns": 9}',
        '{"max_turns": 0}',
        '{"budget_usd": 1e999}',
        "[]",
    ),
    "CHARGEHAND_FALLBACK_MODELS": ('{"small": "a", "small": "b"}', '{"huge": "a"}', "[]"),
    "CHARGEHAND_REQUESTS_PER_SECOND": ("0", "-1", "nan", "many"),
    "CHARGEHAND_SILENCE_SECONDS": ("0", "nan", "1e9"),
    "CHARGEHAND_ANSWER_TOKENS": ("0", "1.5"),
    "CHARGEHAND_OUTPUT_TOKENS": ("12000", '{"work": 0}', '{"work": 200000}', '{"wrok": 12000}'),
    "CHARGEHAND_REASONING_MODELS": ("m", '{"m": 7}', '["m"]'),
    "CHARGEHAND_CONTEXT_WINDOW": ("0", "7999", "128k"),
    "CHARGEHAND_OPENAI_BACKGROUND": ("maybe",),
    "CHARGEHAND_RECALL_SECONDS": ("0", "1h"),
    "CHARGEHAND_QUEUES": ("[]", '{"robots": 1}', '{"tools": 0}', '{"tools": 1, "tools": 2}'),
    "CHARGEHAND_ROLES": ('["sandboxes"]', "[]", '["robots"]', "tools"),
    "CHARGEHAND_MAX_ACTIVITIES": ("0", "1001", "many"),
    "CHARGEHAND_HEARTBEAT_TIMEOUT": ("0", "4", "301", "2.5"),
    "CHARGEHAND_PROCESSES": ("0", "65", "all"),
    "CHARGEHAND_INDEX_DAYS": ("0", "x"),
    "CHARGEHAND_CODE_INTERNET": ("maybe",),
    "CHARGEHAND_ENCRYPTION_ACCEPT_PLAIN": ("maybe",),
    "CHARGEHAND_STORAGE_THRESHOLD": ("-1", "x"),
    "CHARGEHAND_STORAGE_RESULTS": ("maybe",),
    "CHARGEHAND_DEPLOYMENT": ("", "a b", "crew.one"),
    "CHARGEHAND_BUILD_ID": ("", "a b", "without-a-deployment"),
    "CHARGEHAND_METRICS_ADDRESS": ("9464", "host"),
    "CHARGEHAND_LOG_LEVEL": ("", "loud"),
    "CHARGEHAND_LOG_FORMAT": ("", "xml"),
    "CHARGEHAND_PROVIDER": ("nobody",),
    "CHARGEHAND_SEARCH": ("nobody",),
    "CHARGEHAND_CODE": ("nobody",),
}
_CHECKED_AT_START = {
    "CHARGEHAND_FALLBACK_PROVIDER",
    "CHARGEHAND_HEALTH_FILE",
    "CHARGEHAND_STATE_DIR",
    "CHARGEHAND_ARTIFACTS",
    "CHARGEHAND_STORAGE",
    "CHARGEHAND_CREDENTIAL_KEYS",
    "CHARGEHAND_ENCRYPTION_KEYS",
    "CHARGEHAND_ENCRYPTION_KEY_ID",
}
"""What only opening the folder, the bucket or the keys can tell."""


def test_bad_values_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each setting refuses a value that it cannot have, in a short message that names it."""
    for name, value in ((name, value) for name, values in BAD.items() for value in values):
        with monkeypatch.context() as environment:
            environment.setenv(name, value)
            code = program.main(["--check-settings"])
        told = capsys.readouterr().err
        assert (code, name in told, len(told) < 1_000) == (2, True, True), (name, value, told)


def test_every_setting_has_a_bad_value() -> None:
    """The list above is complete: a setting that anything may be put into is a key or an address for a domain."""
    names = {
        str(field.validation_alias or f"CHARGEHAND_{name.upper()}") for name, field in Settings.model_fields.items()
    }
    keys = {name for name in names if name.endswith(("_API_KEY", "E2B_DOMAIN"))}

    assert names - keys - _CHECKED_AT_START == {*BAD}


@pytest.mark.parametrize("place", ["/dev/null/state", "/proc/state", "/etc/passwd"])
def test_a_state_directory_that_cannot_be_written_is_refused_by_name(place: str) -> None:
    """A worker does not start where it could keep nothing, whatever the reason."""
    with pytest.raises(SettingsError, match="CHARGEHAND_STATE_DIR"):
        require_writable(Path(place))


def test_storage_allows_the_deep_profile() -> None:
    """Where large payloads are stored elsewhere, the usual ceilings allow every profile; ceilings that are set stay."""
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
def test_hostile_text_in_any_setting_is_refused_by_name_or_taken(
    hostile: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No text ends the worker with a traceback, reaches the terminal as it is, or fills it."""
    for field, info in settings_type().model_fields.items():
        name = str(info.validation_alias or f"CHARGEHAND_{field.upper()}")
        with monkeypatch.context() as environment:
            environment.setenv(name, os.fsdecode(hostile))
            code = program.main(["--check-settings"])
        told = capsys.readouterr().err.removesuffix("\n")
        is_refused = code == 2 and name in told and len(told) <= 4_100 and told.isprintable()
        assert is_refused or code == 0, (name, code, told[:300])


def test_many_names_in_a_setting_are_read_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to find a repeated name grows with their number, not with its square."""
    monkeypatch.setenv("CHARGEHAND_QUEUES", "{" + ",".join(f'"{number}":1' for number in range(10_000)) + "}")
    began = time.process_time()

    assert program.main(["--check-settings"]) == 2
    assert time.process_time() - began < 0.5
