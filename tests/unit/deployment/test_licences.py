"""What is shipped, extras included: licences, effects on all programs, and hashes in the lock."""

import tomllib
from importlib.metadata import PackageMetadata, PackageNotFoundError, distributions, metadata
from typing import Any

from tests.unit.deployment.test_documents import ROOT

_PERMISSIVE = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0", "MIT-CMU"),
    *("PSF-2.0", "Zlib"),
    # Names used where no SPDX expression is given.
    *("3-Clause BSD License", "Apache Software License", "BSD License", "ISC License (ISCL)", "MIT License"),
    *("Python Software Foundation License", "The Unlicense (Unlicense)"),
}
_JUDGED = {
    "certifi": "Mozilla Public License 2.0 (MPL 2.0)",  # used unchanged
    # A dependency of WeasyPrint. It is under any of these, so under MPL 1.1; used unchanged; not always in tests.
    "pyphen": "GNU General Public License v2 or later (GPLv2+) AND GNU Lesser General Public License v2 or later "
    "(LGPLv2+) AND Mozilla Public License 1.1 (MPL 1.1)",
    "protobuf-py-ext": "",  # e2b brings it, by the authors of protobuf-py
    "pypdfium2": "BSD-3-Clause, Apache-2.0, dependency licenses",  # the licences of PDFium's parts are permissive
    "tld": "MPL-1.1 OR GPL-2.0-only OR LGPL-2.1-or-later",  # MPL-1.1, used unchanged
}
"""Other accepted licences, exactly as stated; docs/decisions/0005-dependencies.md gives the reasons."""


_OURS = {"chargehand", "chargehand-application", "chargehand-cli", "chargehand-plugins", "chargehand-worker"}
"""Installed from the checkout, which takes such a file each; their wheels have none."""
_STARTS_WITH_PYTHON = {"setuptools"}
"""For development only."""
LOCKED: list[dict[str, Any]] = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]


def shipped() -> set[str]:
    """List the locked packages that any installation except a development one brings."""
    found: set[str] = set()
    waiting = ["chargehand-application"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for package in (each for each in LOCKED if each["name"] == name):
            extras = package.get("optional-dependencies", {}).values()
            listed = [*package.get("dependencies", []), *(each for extra in extras for each in extra)]
            waiting += [each["name"] for each in listed]
    return found


def stated(about: PackageMetadata) -> str:
    """Return a licence as SPDX, by its classifiers, or as free text."""
    if expressions := fields(about, "License-Expression"):
        return expressions[0]
    classifiers = [each.rpartition(" :: ")[2] for each in fields(about, "Classifier") if each.startswith("License")]
    return " AND ".join(classifiers) or "".join(fields(about, "License")).split("\n")[0]


def fields(about: PackageMetadata, name: str) -> list[str]:
    return [str(each) for each in about.get_all(name) or []]


def is_permissive(licence: str) -> bool:
    """Whether a licence expression is permissive: one alternative with only permissive parts is enough."""
    return any(all(part in _PERMISSIVE for part in alternative.split(" AND ")) for alternative in licence.split(" OR "))


def test_every_installed_package_has_an_accepted_licence() -> None:
    licences: dict[str, str] = {}
    for name in shipped():
        try:
            licences[name] = stated(metadata(name))
        except PackageNotFoundError:
            continue  # for another system, or an extra that tests do without

    assert len(licences) > 100
    judged = {name: licence for name, licence in _JUDGED.items() if name in licences}
    assert {name: licence for name, licence in licences.items() if not is_permissive(licence)} == judged


def test_each_of_our_packages_contains_the_licence_file() -> None:
    """It is a copy: a link would leave the source distribution, which then could not be unpacked."""
    whole = (ROOT / "LICENSE").read_bytes()

    for folder in ("client", "cli", "plugins", "deploy/worker"):
        licence = ROOT / folder / "LICENSE"
        assert (licence.is_symlink(), licence.read_bytes()) == (False, whole)


def test_no_dependency_runs_code_when_python_starts() -> None:
    """A `.pth` file or a `sitecustomize` runs in every process of an environment, whatever it imports."""
    starting = {
        each.name.lower()
        for each in distributions()
        for file in map(str, each.files or ())
        if file.endswith(".pth") or file.startswith(("sitecustomize", "usercustomize"))
    }

    assert starting <= _OURS | _STARTS_WITH_PYTHON
    assert _STARTS_WITH_PYTHON.isdisjoint(shipped())


def test_every_locked_file_has_a_hash() -> None:
    """A package whose files were replaced is not installed."""
    of_others = [each for each in LOCKED if each["name"] not in _OURS]
    files = [
        (each["name"], file) for each in of_others for file in [*each.get("wheels", []), each.get("sdist")] if file
    ]

    assert len(of_others) > 100
    assert {each["name"] for each in of_others} == {name for name, _ in files}
    assert [name for name, file in files if not file.get("hash", "").startswith("sha256:")] == []
