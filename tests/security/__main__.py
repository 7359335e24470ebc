"""Run the hostile tests by class: `python -m tests.security [CLASS …] [--short] [--write docs/security-tests.md]`."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.security.page import CLASSES, Entry, HostileClass, enter, page

_ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.security", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"classes; all if none: {', '.join(CLASSES)}")
    parser.add_argument("--short", action="store_true", help="as few examples as on every merge")
    parser.add_argument("--processes", default="2")
    parser.add_argument("--write", type=Path, help="enter the results into this page and the figures behind it")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(CLASSES):
        parser.error(f"no such class: {', '.join(sorted(unknown))}")
    held = True
    for name in chosen.names or CLASSES:
        entry = _run(CLASSES[name], "default" if chosen.short else "nightly", chosen.processes)
        print(f"{'BROKEN' if entry['failed'] else 'held':8} {name}: {entry['cases']} cases, {entry['seconds']:.0f} s")
        held = held and not entry["failed"]
        if chosen.write:
            enter(name, entry)
            chosen.write.write_text(page(), encoding="utf-8")
    return int(not held)


def _run(hostile: HostileClass, profile: str, processes: str) -> Entry:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chargehand-security-") as folder:
        results = Path(folder) / "results.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            processes,
            "--timeout",
            "0",
            "-p",
            "tests.security.counts",
        ]
        command += [
            "-m",
            "not local_llm and not browser",
            "-o",
            "junit_family=xunit1",
            "--hypothesis-profile",
            profile,
            f"--junitxml={results}",
        ]
        ended = subprocess.run([*command, *hostile.tests], cwd=_ROOT, check=False)
        cases = ET.parse(results).getroot().findall(".//testcase") if results.exists() else []
    entry: Entry = {
        "tests": len(cases),
        "cases": sum(map(_count, cases)),
        "skipped": sum(case.find("skipped") is not None for case in cases),
        "failed": [f"{case.get('classname')}.{case.get('name')}" for case in cases if _has_failed(case)],
        "notes": [value for case in cases for value in _properties(case, "note")],
        "profile": profile,
        "seconds": time.monotonic() - began,
    }
    if ended.returncode and not entry["failed"]:
        entry["failed"] = [f"pytest ended with {ended.returncode}"]
    return entry


def _has_failed(case: ET.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def _count(case: ET.Element) -> int:
    """Count what a test tried: what it recorded, or the test itself."""
    if case.find("skipped") is not None:
        return 0
    return sum(map(int, _properties(case, "cases"))) or 1


def _properties(case: ET.Element, name: str) -> list[str]:
    return [each.get("value", "") for each in case.findall(".//property") if each.get("name") == name]


if __name__ == "__main__":
    sys.exit(main())
