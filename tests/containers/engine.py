"""Docker or podman, and a service of `docker-compose.yml` translated into options of their `run`."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
IMAGE: Final = "localhost/chargehand-worker:check"
_OFFICIAL_BASE: Final = "docker.io/library/python:3.13-slim"
_OWN_BASE: Final = "localhost/chargehand-base"
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_BUILD_SETTINGS: Final = ("PIP_INDEX_URL", "UV_SYSTEM_CERTS")
"""Settings of the Dockerfile that are taken from the user's environment."""
_ELSEWHERE: Final = {
    "build": "the image is built once, by `Engine.build`",
    "image": "as above",
    "depends_on": "the tests start the server",
    "networks": "the host's network takes their place",
    "logging": "the tests read what the worker writes",
    "restart": "the tests restart it",
    "stop_grace_period": "an option of `stop`",
    "healthcheck": "the tests run its command",
}
"""Keys of a service that are not translated into options of `run`, and why."""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Engine:
    """A container runtime, identified by its command."""

    command: tuple[str, ...]

    @property
    def is_podman(self) -> bool:
        return self.command[0] == "podman"

    @property
    def limits(self) -> tuple[str, ...]:
        """Limits on files and processes; podman's defaults can exceed this machine's, and would be refused."""
        return ("--ulimit=nofile=10240:10240", "--ulimit=nproc=9000:9000") if self.is_podman else ()

    def base(self) -> str:
        """Get a base image: the official one, or where that cannot be reached, one of Debian's packages."""
        given = os.environ.get("CONTAINER_BASE")
        if given or not self.is_podman:
            return given or "python:3.13-slim"
        for image in (_OWN_BASE, _OFFICIAL_BASE):
            if subprocess.run([*self.command, "image", "exists", image], check=False).returncode == 0:
                return image
        pulled = subprocess.run(
            [*self.command, "pull", "--quiet", _OFFICIAL_BASE], check=False, capture_output=True, timeout=300
        )
        if pulled.returncode == 0:
            return _OFFICIAL_BASE
        subprocess.run(["sh", str(ROOT / "deploy" / "base-image.sh"), self.command[0]], check=True, timeout=900)
        return _OWN_BASE

    def build(self) -> None:
        """Build the image of the Dockerfile, by the package index and certificates of this machine."""
        settings = {"BASE": self.base()} | {name: os.environ[name] for name in _BUILD_SETTINGS if name in os.environ}
        options = ["--network=host"]
        if self.is_podman and _CERTIFICATES.exists():
            settings.setdefault("UV_SYSTEM_CERTS", "1")
            options += ["--volume", f"{_CERTIFICATES}:{_CERTIFICATES}:ro"]
        arguments = [part for name, value in settings.items() for part in ("--build-arg", f"{name}={value}")]
        command = [*self.command, "build", *options, *self.limits, *arguments, "--tag", IMAGE, str(ROOT)]
        built = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
        assert built.returncode == 0, built.stdout[-4_000:] + built.stderr[-4_000:]

    async def call(self, *arguments: str, seconds: float = 60) -> Ran:
        """Call the runtime and wait for its output."""
        process = await asyncio.create_subprocess_exec(
            *self.command, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(seconds):
            out, err = await process.communicate()
        return Ran(process.returncode or 0, out.decode(), err.decode())

    async def run(self, options: Sequence[str], *command: str, seconds: float = 60) -> Ran:
        """Run a command in a new container."""
        return await self.call("run", "--rm", *self.limits, *options, IMAGE, *command, seconds=seconds)

    @asynccontextmanager
    async def volume(self) -> AsyncGenerator[str]:
        name = f"chargehand-check-{uuid4().hex[:8]}"
        assert (await self.call("volume", "create", name)).code == 0
        try:
            yield name
        finally:
            await self.call("volume", "rm", "--force", name)

    @asynccontextmanager
    async def container(self, options: Sequence[str], *command: str) -> AsyncGenerator[str]:
        """Start the image's own command or another; the container is gone afterwards, however it was stopped."""
        name = f"chargehand-check-{uuid4().hex[:8]}"
        started = await self.call("run", "--detach", "--name", name, *self.limits, *options, IMAGE, *command)
        try:
            assert started.code == 0, started.err
            yield name
        finally:
            await self.call("rm", "--force", "--volumes", name)


def find_engine() -> Engine | None:
    """Find a runtime that runs containers here."""
    with suppress(OSError, subprocess.TimeoutExpired):
        if subprocess.run(["docker", "info"], check=False, capture_output=True, timeout=30).returncode == 0:
            return Engine(("docker",))
    if shutil.which("podman") is None:
        return None
    # Podman's usual runtime, crun, requires one kind of control groups; runc accepts both.
    return Engine(("podman", "--runtime", "runc") if shutil.which("runc") else ("podman",))


def service(name: str) -> dict[str, Any]:
    """Read a service of the compose file, with the defaults of its variables."""
    written = (ROOT / "docker-compose.yml").read_text("utf-8")
    loaded = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", written).replace("$$", "$"))
    return cast("dict[str, Any]", loaded["services"][name])


def options_of(composed: Mapping[str, Any], volume: str, settings: Mapping[str, str], *, podman: bool) -> list[str]:
    """Translate a service of the compose file into options of `run`, on the host's network.

    `volume` stands for the named volume, and `settings` come after those of the file. An unknown key is an error, so
    nothing in the file is left out without a reason.
    """
    written = cast("dict[str, str | None]", composed["environment"])
    environment = {name: value for name, value in {**written, **settings}.items() if value is not None}
    options = ["--network=host", *[f"--env={name}={value}" for name, value in environment.items()]]
    for key, value in composed.items():
        match key:
            case "environment":
                pass
            case "init":
                options += ["--init"] * value
            case "read_only":
                # Podman would otherwise mount its own writable folders.
                options += ["--read-only", *(["--read-only-tmpfs=false"] if podman else [])] * value
            case "tmpfs":
                options += [f"--tmpfs={each}" for each in value]
            case "cap_drop":
                options += [f"--cap-drop={each}" for each in value]
            case "security_opt":
                options += [f"--security-opt={each}" for each in value]
            case "volumes":
                [mount] = value
                options += [f"--volume={volume}:{mount.partition(':')[2]}"]
            case "deploy":
                limits = value["resources"]["limits"]
                assert limits.keys() == {"cpus", "memory", "pids"}
                options += [f"--cpus={limits['cpus']}", f"--memory={limits['memory']}"]
                options += [f"--pids-limit={limits['pids']}"]
            case _:
                assert key in _ELSEWHERE, key
    return options
