"""Run the hostile tests by class: `python -m tests.security [CLASS …] [--short] [--write docs/security-tests.md]`.

The figures are kept in a JSON file, an entry a class, and the page is written from it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree as ET

_ROOT: Final = Path(__file__).resolve().parents[2]
FIGURES: Final = _ROOT / "benchmarks" / "results" / "security.json"
Entry = dict[str, Any]


class HostileClass(NamedTuple):
    """One class of hostile input."""

    title: str
    claim: str
    """What must hold."""
    tests: tuple[str, ...]
    package: str = ""
    """The package that its tests import beyond the dependency group `dev`; also the name of its group."""


CLASSES: Final[Mapping[str, HostileClass]] = {
    "injection": HostileClass(
        "Prompt injection",
        "292 texts on 13 carriers, read by a model that obeys: no agent uses another's tool, no private text leaves.",
        (
            "tests/security/test_obedience.py",
            "tests/security/test_untrusted_text.py",
            "plugins/src/chargehand_plugins/mcp/tests/test_definitions.py",
        ),
    ),
    "agentdojo": HostileClass(
        "AgentDojo",
        "949 cases of AgentDojo 1.2.2 on five carriers, read by a model that obeys: at most 1 % of the attacks reach "
        "their goal by a tool, none with private text. With the benchmark's own sending tools and 45 encodings of each "
        "argument, nothing private is sent without a person's approval.",
        ("tests/security/test_agentdojo.py", "tests/security/test_agentdojo_flow.py"),
        "agentdojo",
    ),
    "flow": HostileClass(
        "Flow of private text",
        "An attacker who knows the rules, 45 encodings, an agent that obeys; through outcomes, nested sessions, "
        "conversations, follow-ups and continued runs only the user's words and what the crew lists are sent "
        "without approval.",
        ("tests/security/test_flow_control.py",),
    ),
    "separation": HostileClass(
        "Secrets, separation and reports",
        "No key or text of a session reaches another, a log, a history or a page; a hostile report is shown as text.",
        ("tests/security/test_secrets.py", "tests/security/test_separation.py", "tests/security/test_reports.py"),
    ),
    "files": HostileClass(
        "Hostile files",
        "ZIP, XML, PDF, text and polyglot bombs under every suffix are read or refused by a child of at most 512 MB "
        "in seconds; the worker grows by less than 64 MB and reads the next document.",
        ("tests/activities/documents/test_hostile_documents.py", "tests/activities/documents/test_document_sources.py"),
    ),
    "addresses": HostileClass(
        "Addresses and DNS rebinding",
        "No spelling, redirect or answer of a resolver makes the worker connect to a private address.",
        (
            "tests/activities/pages/test_page_addresses.py",
            "tests/activities/pages/test_page_attacks.py",
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
        "Any answer on Anthropic Messages, OpenAI Responses or Chat Completions is a typed error or a reply charged as "
        "billed; a wrong certificate never sees the key.",
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
        "The converter, contracts, text parsers and the streams of all three wires read or refuse changed bytes.",
        ("tests/fuzz",),
    ),
}
_HEAD: Final = """\
# Security, tested

See which attacks were tried, and whether any got through.
"""
_TAIL: Final = """\
## Method

A *case* is one attack, file, address, message or generated example; a class holds if none of its tests fails. The
profile `default` tries the examples of every merge, `nightly` far more. Not tested: how often a real model obeys an
injected text, and code that you add. `python -m tests.security NAME` runs one class; `make nightly` runs all and writes
this page.
"""


def main() -> int:
    """Run the requested classes."""
    parser = argparse.ArgumentParser(prog="python -m tests.security", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"classes; all if none: {', '.join(CLASSES)}")
    parser.add_argument("--short", action="store_true", help="as few examples as on every merge")
    parser.add_argument("--processes", default="2")
    parser.add_argument("--write", type=Path, help="enter the results into this page and the figures behind it")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(CLASSES):
        parser.error(f"no such class: {', '.join(sorted(unknown))}")
    held = True
    names = chosen.names or list(CLASSES)
    if missing := [name for name in names if (package := CLASSES[name].package) and find_spec(package) is None]:
        parser.error(f"a dependency group is not installed: run `sh bootstrap.sh --group {missing[0]}`")
    for name in names:
        entry = _run(CLASSES[name], "default" if chosen.short else "nightly", chosen.processes)
        print(f"{'BROKEN' if entry['failed'] else 'held':8} {name}: {entry['cases']} cases, {entry['seconds']:.0f} s")
        held = held and not entry["failed"]
        if chosen.write:
            _enter(name, entry)
            chosen.write.write_text(page(), encoding="utf-8")
    return int(not held)


def _run(hostile: HostileClass, profile: str, processes: str) -> Entry:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chargehand-security-") as folder:
        results = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", processes, "--timeout", "0"]
        command += ["-p", "tests.security.counts", "-m", "not local_llm and not browser", "-o", "junit_family=xunit1"]
        command += ["--hypothesis-profile", profile, f"--junitxml={results}"]
        ended = subprocess.run([*command, *hostile.tests], cwd=_ROOT, check=False)
        cases = ET.parse(results).getroot().findall(".//testcase") if results.exists() else []
    entry: Entry = {
        "tests": len(cases),
        "cases": sum(map(_count, cases)),
        "skipped": sum(case.find("skipped") is not None for case in cases),
        "failed": [
            f"{case.get('classname')}.{case.get('name')}"
            for case in cases
            if {"failure", "error"} & {each.tag for each in case}
        ],
        "notes": [value for case in cases for value in _properties(case, "note")],
        "profile": profile,
        "seconds": time.monotonic() - began,
    }
    if ended.returncode and not entry["failed"]:
        entry["failed"] = [f"pytest ended with {ended.returncode}"]
    return entry


def _count(case: ET.Element) -> int:
    """Count a test's attempts: those that it recorded, or the test itself."""
    if case.find("skipped") is not None:
        return 0
    return sum(map(int, _properties(case, "cases"))) or 1


def _properties(case: ET.Element, name: str) -> list[str]:
    return [each.get("value", "") for each in case.findall(".//property") if each.get("name") == name]


def _enter(name: str, entry: Entry) -> None:
    """Store the result of a class, replacing its previous one."""
    entries = _entries()
    entries[name] = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", **entry, "seconds": round(entry["seconds"])}
    FIGURES.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def page() -> str:
    """Write the page from all stored results."""
    entries = {name: entry for name, entry in _entries().items() if name in CLASSES}
    lines = ["| class | what holds | cases | profile | held | date |", "|---|---|--:|---|---|---|"]
    lines += [_row(name, entries[name]) for name in CLASSES if name in entries]
    cases = sum(entry["cases"] for entry in entries.values())
    broken = sum(bool(entry["failed"]) for entry in entries.values())
    summary = f"**{len(entries)} classes, {cases:,} cases, {broken or 'none'} broken.**"
    sections = [_section(name, entries[name]) for name in CLASSES if name in entries]
    missing = ", ".join(f"`{name}`" for name in CLASSES if name not in entries)
    rest = [f"Not run yet: {missing}.\n"] if missing else []
    return "\n".join([_HEAD, f"{summary}\n", *lines, "", *rest, *filter(None, sections), _TAIL])


def _entries() -> dict[str, Entry]:
    return json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}


def _row(name: str, entry: Entry) -> str:
    held = "**broken**" if entry["failed"] else "yes"
    cases = f"{entry['cases']:,}" + (f" ({entry['skipped']} skipped)" if entry["skipped"] else "")
    counts = f"{cases} | {entry['profile']} | {held} | {entry['date'].split()[0]}"
    return f"| `{name}` | {CLASSES[name].claim} | {counts} |"


def _section(name: str, entry: Entry) -> str:
    """Write the details of a class beyond its row; empty if there are none."""
    more = [*entry["notes"], *(f"**broken**: `{failed}`" for failed in entry["failed"])]
    return "\n".join([f"## {CLASSES[name].title}\n", *(f"- {each}" for each in more)]) + "\n" if more else ""


if __name__ == "__main__":
    sys.exit(main())
