"""What dependencies could do to every program on the machine, and whether their files are those of the lock (S32)."""

import tomllib
from importlib.metadata import Distribution, distributions
from typing import Any

from tests.unit.deployment.test_documents import ROOT
from tests.unit.deployment.test_licences import shipped

_OURS = {"chargehand", "chargehand-application", "chargehand-cli", "chargehand-plugins", "chargehand-worker"}
"""Installed from the checkout, which takes such a file each; their wheels have none."""
_STARTS_WITH_PYTHON = {"setuptools"}
"""For development only."""


def _locked() -> list[dict[str, Any]]:
    return tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]


def _files(of: Distribution) -> list[str]:
    return [str(file) for file in of.files or ()]


def test_no_dependency_runs_at_the_start_of_every_python() -> None:
    """A `.pth` file or a `sitecustomize` runs in each process of an environment, whatever that imports."""
    starting = {
        each.name.lower()
        for each in distributions()
        if any(file.endswith(".pth") or file.startswith(("sitecustomize", "usercustomize")) for file in _files(each))
    }

    assert starting <= _OURS | _STARTS_WITH_PYTHON
    assert _STARTS_WITH_PYTHON.isdisjoint(shipped())


def test_every_file_of_the_lock_has_its_hash() -> None:
    """A package whose files were replaced is not installed."""
    of_others = [each for each in _locked() if each["name"] not in _OURS]
    files = [
        (each["name"], file) for each in of_others for file in [*each.get("wheels", []), each.get("sdist")] if file
    ]

    assert len(of_others) > 100
    assert {each["name"] for each in of_others} == {name for name, _ in files}
    assert [name for name, file in files if not file.get("hash", "").startswith("sha256:")] == []
