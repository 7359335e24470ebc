"""The page of results: figures are kept in a JSON file, an entry a class, and the page is written from it."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

FIGURES: Final = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "security.json"
Entry = dict[str, Any]


class HostileClass(NamedTuple):
    """One class of hostile input."""

    title: str
    claim: str
    """What has to hold."""
    tests: tuple[str, ...]


CLASSES: Final[Mapping[str, HostileClass]] = {
    "injection": HostileClass(
        "Prompt injection",
        "292 texts on 13 carriers, read by a model that obeys all of them: no agent uses a tool that is not its own, "
        "and nothing private leaves the machine.",
        (
            "tests/security/test_obedience.py",
            "tests/security/test_untrusted_text.py",
            "tests/security/test_mcp_servers.py",
            "plugins/src/chargehand_plugins/mcp/tests/test_definitions.py",
        ),
    ),
    "agentdojo": HostileClass(
        "AgentDojo",
        "All 949 cases of AgentDojo 1.2.2, each on five carriers, read by a model that obeys: at most 1 % of the "
        "attacks reach their goal through a tool, and none brings out what is private. With the benchmark's own tools "
        "that send something (mail, bank, calendar, bookings, chat), the attacker knows the rules of what may be sent, "
        "and tries 45 encodings in each argument: nothing private is sent that a person has not approved. How often a "
        "real model obeys is not measured.",
        ("tests/security/test_agentdojo.py", "tests/security/test_agentdojo_flow.py"),
    ),
    "flow": HostileClass(
        "Flow of private text",
        "An attacker who knows the rules writes in a document, and the agent that reads it obeys: in 45 encodings, "
        "through outcomes, nested sessions, conversations, follow-ups and continued runs, nothing is sent without a "
        "person's approval but the user's own words and what a crew lists.",
        ("tests/security/test_flow_control.py",),
    ),
    "separation": HostileClass(
        "Secrets, separation and reports",
        "No key and no text of one session reaches another, a log, a history or a page; a hostile report is shown as "
        "text.",
        ("tests/security/test_secrets.py", "tests/security/test_separation.py", "tests/security/test_reports.py"),
    ),
    "files": HostileClass(
        "Hostile files",
        "ZIP, XML, PDF, text and polyglot bombs under every suffix: read or refused in words, by a child of at most "
        "512 MB, in seconds of processor time; the worker grows by less than 64 MB and reads the next document.",
        (
            "tests/activities/documents/test_hostile_documents.py",
            "tests/activities/documents/test_hostile_documents.py",
            "tests/activities/documents/test_document_sources.py",
        ),
    ),
    "addresses": HostileClass(
        "Addresses and DNS rebinding",
        "No spelling, redirect or answer of a resolver makes the worker connect to a private address.",
        (
            "tests/activities/pages/test_page_addresses.py",
            "tests/activities/pages/test_page_attacks.py",
            "tests/activities/pages/test_page_addresses.py",
            "tests/activities/pages/test_page_bombs.py",
        ),
    ),
    "leaks": HostileClass(
        "Leaks through addresses",
        "An address that carries a piece of private text, in the encodings that the check knows, is refused.",
        ("tests/activities/pages/test_leak_check.py",),
    ),
    "providers": HostileClass(
        "Providers",
        "Whatever a provider answers on Anthropic Messages, OpenAI Responses or Chat Completions ends in a typed error "
        "or a reply that is charged as billed; a wrong certificate never sees the key.",
        (
            "tests/activities/models/test_hostile_replies.py",
            "tests/activities/models/test_model_failures.py",
            "tests/activities/models/test_streamed_replies.py",
            "tests/activities/models/test_tls.py",
        ),
    ),
    "input": HostileClass(
        "Input and messages",
        "Input that cannot be used is refused for good, naming the field; no input and no message stops a session.",
        (
            "tests/unit/contracts/test_bad_input.py",
            "tests/unit/contracts/test_input_size.py",
            "tests/workflows/test_bad_requests.py",
            "tests/workflows/test_bad_requests.py",
        ),
    ),
    "tools": HostileClass(
        "SQL and code",
        "Queries and programs of a model read nothing but the session's tables, and end within their limits.",
        (
            "tests/activities/data/test_query_data.py",
            "tests/activities/code/test_worker_code.py",
            "tests/activities/code/test_monty.py",
            "tests/activities/code/test_run_code.py",
            "plugins/src/chargehand_plugins/bubblewrap/tests/test_seccomp.py",
        ),
    ),
    "fuzzing": HostileClass(
        "Fuzzing",
        "Changed bytes are read or refused by the converter, every contract, the text parsers and the streams of all "
        "three wires, from a corpus that is replayed on every merge.",
        ("tests/fuzz",),
    ),
}
_HEAD: Final = """\
# Security, tested

Written by `make nightly` (`python -m tests.security --write docs/security-tests.md`) from the results of the tests;
edit the tests, not this page. A *case* is one attack, file, address, message or generated example. A class has held if
none of its tests failed. The profile `default` tries as many examples as every merge does, `nightly` far more.

What the tests do not show: how often a real model obeys an injected text, and what code does that you add.
"""


def enter(name: str, entry: Entry) -> None:
    """Keep the result of a class, in the place of its last one."""
    entries = _entries()
    entries[name] = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", **entry, "seconds": round(entry["seconds"])}
    FIGURES.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def page() -> str:
    """Write the page from all results that are kept."""
    entries = {name: entry for name, entry in _entries().items() if name in CLASSES}
    lines = ["| class | tests | cases tried | held | date |", "|---|--:|--:|---|---|"]
    lines += [_row(name, entries[name]) for name in CLASSES if name in entries]
    cases = sum(entry["cases"] for entry in entries.values())
    broken = sum(bool(entry["failed"]) for entry in entries.values())
    summary = f"**{len(entries)} classes, {cases:,} cases, {broken or 'none'} broken.**"
    sections = [_section(name, entries[name]) for name in CLASSES if name in entries]
    missing = ", ".join(f"`{name}`" for name in CLASSES if name not in entries)
    rest = [f"Not run yet: {missing}.\n"] if missing else []
    return "\n".join([_HEAD, f"{summary}\n", *lines, "", *rest, *sections]).rstrip() + "\n"


def _entries() -> dict[str, Entry]:
    return json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}


def _row(name: str, entry: Entry) -> str:
    held = "**broken**" if entry["failed"] else "yes"
    title = CLASSES[name].title
    anchor = "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")
    return f"| [{title}](#{anchor}) | {entry['tests']} | {entry['cases']:,} | {held} | {entry['date']} |"


def _section(name: str, entry: Entry) -> str:
    hostile = CLASSES[name]
    skipped = f", {entry['skipped']} skipped" if entry["skipped"] else ""
    lines = [f"## {hostile.title}\n", f"{hostile.claim}\n", f"- `python -m tests.security {name}`"]
    lines += [
        f"- {entry['tests']} tests, {entry['cases']:,} cases{skipped}, profile {entry['profile']}, {entry['seconds']} s"
    ]
    lines += [f"- {note}" for note in entry["notes"]]
    lines += [f"- **broken**: `{failed}`" for failed in entry["failed"]]
    return "\n".join(lines) + "\n"
