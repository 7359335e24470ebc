"""The self-test of the bubblewrap sandbox: it is offered only if every known way out of it is shut on this host."""

import asyncio
import json
import secrets
import tempfile
from pathlib import Path
from typing import Final

from temporalio.exceptions import ApplicationError

from activities.code.bubblewrap import BubblewrapRunner, SandboxUnusableError
from activities.code.protocol import CodeResult

_PROBE: Final = Path(__file__).with_name("bubblewrap_probe.py")


async def require_tight(runner: BubblewrapRunner) -> None:
    """Try to get out, and let nobody use the sandbox if that works. Raises `SandboxUnusableError`."""
    runner.start()
    # Not below a folder that the sandbox has anyhow.
    with tempfile.TemporaryDirectory(prefix="chargehand-canary-") as folder:
        canary = await asyncio.to_thread(_Canary, Path(folder))
        probe = await asyncio.to_thread(_PROBE.read_text)
        result = await _tried(runner, f"CANARIES = {[str(canary.file), folder]!r}\n{probe}")
        was_reached = await asyncio.to_thread(canary.was_touched) or canary.secret in result.model_dump_json()
    escapes = _escapes(result)
    if was_reached:
        escapes.append("reach a file of the host")
    if escapes:
        raise SandboxUnusableError(f"code in the sandbox of bubblewrap could, on this host: {', '.join(escapes)}")


class _Canary:
    """A folder that anyone may write to, with a secret that anyone may read."""

    def __init__(self, folder: Path) -> None:
        self.secret = secrets.token_hex(16)
        folder.chmod(0o777)
        self.file = folder / "secret.txt"
        self.file.write_text(self.secret)

    def was_touched(self) -> bool:
        return [*self.file.parent.iterdir()] != [self.file] or self.file.read_text() != self.secret


async def _tried(runner: BubblewrapRunner, code: str) -> CodeResult:
    try:
        return await runner.run(code, "self-test")
    except ApplicationError as error:
        raise SandboxUnusableError(
            f"{error.message}. It needs user namespaces, which many containers and some hosts do not allow"
        ) from error


def _escapes(result: CodeResult) -> list[str]:
    try:
        found: object = json.loads(result.stdout)
    except ValueError:
        found = None
    if result.error or not isinstance(found, list):
        reason = (result.error or "it said nothing").strip().rpartition("\n")[2]
        raise SandboxUnusableError(f"the self-test of the bubblewrap sandbox did not come to an end: {reason}")
    return [str(name) for name in found]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
