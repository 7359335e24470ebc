"""The compose file, the image and their scripts, as far as they can be checked without a container runtime.

`tests/containers` builds the image and runs the worker. The images of the other services have to be pulled, so only
their settings in these files are checked.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from chargehand import search_attributes
from chargehand.wire import SEARCH_ATTRIBUTE_TYPES, SearchAttribute
from chargehand_cli.embedded.state import WorkerCommand
from tests.loopback_http import free_port
from tests.unit.deployment.test_code_blocks import command_line
from worker.settings import settings_type
from worker.shutdown import GRACEFUL_SHUTDOWN_TIMEOUT

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "Dockerfile"
FOR_OTHERS = ("TEMPORAL_", "AWS_", "GOOGLE_")
"""Prefixes of variables that are read by the SDKs below the worker."""


SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]


def environment_names_of_the_worker() -> set[str]:
    names = (field.validation_alias or f"chargehand_{name}" for name, field in settings_type().model_fields.items())
    return {"CHARGEHAND_PLUGINS", *(str(name).upper() for name in names)}


def test_every_documented_extra_can_be_installed() -> None:
    """The application has each extra that the image and the pages name and that `worker` does not include."""
    application, client = (
        tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]["optional-dependencies"]
        for path in ("pyproject.toml", "client/pyproject.toml")
    )
    pages = [DOCKERFILE, COMPOSE, *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    named = {extra for page in pages for extra in re.findall(r"--extra ([\w-]+)", page.read_text(encoding="utf-8"))}

    brought = {"cli", "console", "docx", "encryption", "worker"}
    assert {*application} == {*client} - brought
    assert named <= {*application}


@pytest.mark.slow
def test_the_image_builds_from_its_docker_context(tmp_path: Path) -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    context = {line.removeprefix("!") for line in lines if line.startswith("!")}
    build_stage = DOCKERFILE.read_text(encoding="utf-8").partition("\nFROM $BASE\n")[0]
    copied = {path for line in re.findall(r"^COPY (.*) \S+$", build_stage, re.MULTILINE) for path in line.split()}
    wanted = sorted(path for path in copied if path.partition("/")[0] in context)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *wanted]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in filter(None, listed.split("\0")):
        (copy := tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / path).read_bytes())

    for package in ("deploy/worker", "plugins"):
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
        built = subprocess.run(build, cwd=tmp_path / package, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr


def test_compose_files_fit_the_compose_specification() -> None:
    of_projects = ROOT / "deploy" / "worker" / "src" / "chargehand_worker" / "template" / "docker-compose.override.yml"
    files = [str(COMPOSE), str(ROOT / "deploy" / "bubblewrap.yml"), str(of_projects)]
    subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *files],
        check=True,
        capture_output=True,
        timeout=60,
    )


def test_images_are_pinned() -> None:
    images = {name: service["image"] for name, service in SERVICES.items()}
    dockerfile = DOCKERFILE.read_text(encoding="utf-8")

    assert [image for image in images.values() if not re.fullmatch(r"[a-z/-]+:\d+(\.\d+)+", image)] == []
    assert images["temporal"].split(":")[1] == images["temporal-schema"].split(":")[1]
    assert re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE) == ["$BASE", "$BASE"]
    assert re.findall(r"^ARG BASE=(\S+)$", dockerfile, re.MULTILINE) == ["python:3.13-slim"]


def test_our_images_are_tagged_with_the_package_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    overlays = (ROOT / "deploy" / "kubernetes" / "overlays").glob("*/kustomization.yaml")
    written = [path.read_text(encoding="utf-8") for path in (COMPOSE, ROOT / "deploy" / "README.md", *overlays)]
    tags = [re.findall(r"(?:chargehand-worker:|newTag: )(\d[\d.]+)", text) for text in written]

    assert len(tags) > 2
    assert {tag for found in tags for tag in found} == {version}


def test_services_have_limits_and_no_privileges() -> None:
    for name, service in SERVICES.items():
        ports = cast("list[str]", service.get("ports", []))

        assert set(service["deploy"]["resources"]["limits"]) >= {"cpus", "memory"}
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}
        assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
        assert service["restart"] == ("no" if name in {"temporal-schema", "temporal-namespace"} else "unless-stopped")


def test_the_container_worker_gets_every_setting() -> None:
    given = {name for name in SERVICES["worker"]["environment"] if not name.startswith(FOR_OTHERS)}

    assert given == environment_names_of_the_worker()


def test_the_codec_server_has_the_workers_encryption_and_storage() -> None:
    worker, codec = SERVICES["worker"], SERVICES["codec-server"]
    told = ("CHARGEHAND_ENCRYPTION_", "CHARGEHAND_STORAGE", *FOR_OTHERS)
    shared = {name for name in worker["environment"] if name.startswith(told)}

    assert set(codec["environment"]) == shared | {"CHARGEHAND_CODEC_TOKEN"}
    [program, command, *options] = codec["command"]
    known = {name for each in command_line().commands[command].params for name in each.opts}
    assert program == "chargehand"
    assert {option.partition("=")[0] for option in options} <= known


def test_every_compose_setting_is_documented() -> None:
    """The table of deploy/README.md has what the compose files take from a user's environment, and nothing else."""
    environments = (SERVICES[name]["environment"] for name in ("worker", "codec-server"))
    passed_on = {name for environment in environments for name, value in environment.items() if value is None}
    taken = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text(encoding="utf-8"))) | passed_on

    readme = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?) \|", readme, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == taken | {
        "CHARGEHAND_STATE_DIR",
        "CHARGEHAND_HEALTH_FILE",
    }


def test_the_container_worker_can_write_only_to_state_and_scratch() -> None:
    worker = SERVICES["worker"]

    assert worker["read_only"] is True
    assert worker["volumes"] == [f"artifacts:{worker['environment']['CHARGEHAND_STATE_DIR']}"]
    assert [entry.split(":")[0] for entry in worker["tmpfs"]] == ["/tmp"]
    assert worker["environment"]["CHARGEHAND_HEALTH_FILE"].startswith("/tmp/")
    assert worker["environment"]["CHARGEHAND_HEALTH_FILE"] in worker["healthcheck"]["test"][1]
    assert worker["environment"]["CHARGEHAND_STATE_DIR"] in DOCKERFILE.read_text(encoding="utf-8")


def test_the_documented_retention_matches_the_compose_file() -> None:
    retention = SERVICES["temporal-namespace"]["environment"]["RETENTION"]
    page = (ROOT / "docs" / "how-to" / "retention.md").read_text(encoding="utf-8")

    assert f"{int(retention.removesuffix('h')) // 24} days in the compose file (`RETENTION={retention}`)" in page


def test_search_attributes_match_everywhere() -> None:
    job = (ROOT / "deploy" / "temporal-namespace.sh").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "finding-sessions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`Chargehand.*?) \| (\w+) \|", page, re.MULTILINE)
    keys = [getattr(search_attributes, each.name) for each in SearchAttribute]

    assert dict(re.findall(r"--name (\w+) --type (\w+)", job)) == SEARCH_ATTRIBUTE_TYPES
    assert {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)} == SEARCH_ATTRIBUTE_TYPES
    assert {each.name: each.indexed_value_type.name.title() for each in keys} == SEARCH_ATTRIBUTE_TYPES


def test_the_stop_grace_period_exceeds_the_graceful_shutdown_timeout() -> None:
    grace = timedelta(minutes=int(SERVICES["worker"]["stop_grace_period"].removesuffix("m")))

    assert grace > GRACEFUL_SHUTDOWN_TIMEOUT
    assert timedelta(seconds=WorkerCommand((), ROOT).grace_seconds) > GRACEFUL_SHUTDOWN_TIMEOUT


@pytest.fixture(scope="module")
def temporal_address() -> Iterator[str]:
    program = Path(sys.executable).with_name("temporal")
    port = free_port()
    server = subprocess.Popen(
        [str(program), "server", "start-dev", "--headless", "--port", str(port), "--log-level", "never"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")},
    )
    yield f"127.0.0.1:{port}"
    server.terminate()
    server.wait(timeout=30)


@pytest.mark.slow
def test_the_namespace_job_waits_for_the_server_and_is_idempotent(temporal_address: str, tmp_path: Path) -> None:
    temporal = Path(sys.executable).with_name("temporal")
    path = f"{temporal.parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"TEMPORAL_ADDRESS": temporal_address, "TEMPORAL_NAMESPACE": "ferries", "RETENTION": "48h"}
    environment = {"PATH": path, "HOME": str(tmp_path), **settings}
    job = ["sh", str(ROOT / "deploy" / "temporal-namespace.sh")]
    first = subprocess.run(job, env=environment, check=True, capture_output=True, text=True, timeout=90)
    second = subprocess.run(job, env=environment, check=True, capture_output=True, text=True, timeout=90)

    described, listed = (
        subprocess.run([temporal, "operator", *command], env=environment, check=True, capture_output=True, text=True)
        for command in (["namespace", "describe"], ["search-attribute", "list"])
    )
    assert "ferries" in first.stdout
    assert second.stdout.startswith("Namespace ferries is there.\n")
    assert re.search(r"Retention\S*\s+48h", described.stdout)
    assert dict(re.findall(r"(Chargehand\w+)\s+(\w+)", listed.stdout)) == SEARCH_ATTRIBUTE_TYPES
